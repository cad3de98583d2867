# Large language models on the comparison. Replies cost money, so they are not outputs: Snakemake deletes the outputs of a
# failed job.

# Models without their key are not asked, and the figures mark these series as not run.
ASKED = any(model.usable for model in read_models(MODELS, RUN.llm.models).values())


rule llm_ask:
    input:
        table=os.path.relpath(MODELS),
        code=code("cadmus.llm.questions"),
    output:
        touch("results/{run}/llm/asked"),
    log:
        "results/{run}/logs/llm_ask.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        config_file=config_file,
        directory=subpath(output[0], parent=True),
        config=[
            RUN.seed,
            RUN.dataset.model_dump(include={"values", "eval_fraction"}),
            RUN.evaluate.grid.model_dump(),
            RUN.llm.model_dump(exclude={"max_cost_usd"}),
        ],
    shell:
        "python -m cadmus llm ask --config {params.config_file} --directory {params.directory}"
        " --table {input.table} 2>&1 | tee -ia {log}"


rule llm_score:
    input:
        table=os.path.relpath(MODELS),
        asked=rules.llm_ask.output if ASKED else [],
        code=code("cadmus.llm.task"),
    output:
        "results/{run}/experiments/llm.parquet",
    log:
        "results/{run}/logs/llm_score.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        config_file=config_file,
        directory="results/{run}/llm",
    shell:
        "python -m cadmus llm score --config {params.config_file} --directory {params.directory}"
        " --table {input.table} --output {output} 2>&1 | tee -i {log}"
