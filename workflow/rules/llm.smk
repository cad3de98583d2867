# Large language models on the comparison grid. Replies cost money, so they are not outputs: Snakemake deletes the
# outputs of a failed job.

# Without a key, requests are prepared but not sent, and the figures mark these series as not run.
SENT = bool(RUN.llm.models and os.environ.get("OPENAI_API_KEY"))


rule llm_prepare:
    input:
        table=os.path.relpath(MODELS),
        code=code("cadmus.llm.requests"),
    output:
        directory("results/{run}/llm/requests"),
    log:
        "results/{run}/logs/llm_prepare.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        config_file=config_file,
        directory=subpath(output[0], parent=True),
        config=[
            RUN.seed,
            RUN.dataset.model_dump(include={"values", "eval_fraction"}),
            RUN.evaluate.grid.model_dump(),
            RUN.llm.model_dump(exclude={"max_cost_usd", "concurrency", "requests_per_minute"}),
        ],
    shell:
        "python -m cadmus llm prepare --config {params.config_file} --directory {params.directory}"
        " --table {input.table} > {log} 2>&1"


rule llm_submit:
    input:
        table=os.path.relpath(MODELS),
        requests=rules.llm_prepare.output[0],
    output:
        touch("results/{run}/llm/submitted"),
    log:
        "results/{run}/logs/llm_submit.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        command="submit",
        config_file=config_file,
        directory=subpath(output[0], parent=True),
    shell:
        "python -m cadmus llm {params.command} --config {params.config_file} --directory {params.directory}"
        " --table {input.table} 2>&1 | tee -ia {log}"


use rule llm_submit as llm_collect with:
    input:
        table=os.path.relpath(MODELS),
        submitted=rules.llm_submit.output[0],
    output:
        touch("results/{run}/llm/collected"),
    log:
        "results/{run}/logs/llm_collect.log",
    params:
        command="collect --wait",


rule llm_score:
    input:
        table=os.path.relpath(MODELS),
        requests=rules.llm_prepare.output[0],
        collected=rules.llm_collect.output if SENT else [],
        code=code("cadmus.llm.score"),
    output:
        "results/{run}/experiments/llm.parquet",
    log:
        "results/{run}/logs/llm_score.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        config_file=config_file,
        directory=subpath(input.requests, parent=True),
    shell:
        "python -m cadmus llm score --config {params.config_file} --directory {params.directory}"
        " --table {input.table} --output {output} 2>&1 | tee -i {log}"
