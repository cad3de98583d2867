# Large language models on the comparison. Replies cost money, so they are not outputs: Snakemake deletes the outputs of a
# failed job.

# Models without their key are not asked, and the figures mark these series as not run.
ASKED = any(model.usable for model in read_models(MODELS, RUN.llm.models).values())


rule llm_ask:
    input:
        config="results/{run}/configs/llm.yaml",
        table=os.path.relpath(MODELS),
    output:
        touch("results/{run}/llm/asked"),
    log:
        "results/{run}/logs/llm_ask.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        directory=subpath(output[0], parent=True),
        code=code("cadmus.llm.questions"),
    shell:
        "python -m cadmus llm ask --config {input.config} --directory {params.directory}"
        " --table {input.table} 2>&1 | tee -ia {log}"


rule llm_score:
    input:
        config="results/{run}/configs/llm.yaml",
        table=os.path.relpath(MODELS),
        asked=rules.llm_ask.output if ASKED else [],
    output:
        "results/{run}/experiments/llm.parquet",
    log:
        "results/{run}/logs/llm_score.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        directory="results/{run}/llm",
        code=code("cadmus.llm.task"),
    shell:
        "python -m cadmus llm score --config {input.config} --directory {params.directory}"
        " --table {input.table} --output {output} 2>&1 | tee -i {log}"
