# What is measured on the trained model: one Parquet file of numbers each; and its card.


rule accuracy:
    input:
        config=ancient(CONFIG),
        model=rules.train.output.model,
        manifest=rules.manifest.output[0],
        code=code("cadmus.evaluate.completion", "cadmus.model.inference"),
    output:
        f"{RESULTS}/experiments/accuracy.parquet",
    log:
        f"{RESULTS}/logs/accuracy.log",
    conda:
        "../envs/cadmus.yaml"
    threads: workflow.cores
    params:
        dataset=subpath(input.manifest, parent=True),
        config=RUN.evaluate.model_dump(exclude={"grid", "probe"}),
    shell:
        "python -m cadmus evaluate --config {input.config} --model {input.model} --dataset {params.dataset}"
        " --output {output} 2>&1 | tee -i {log}"


rule grid:
    input:
        config=ancient(CONFIG),
        model=rules.train.output.model,
        code=code("cadmus.evaluate.grid", "cadmus.model.inference"),
    output:
        f"{RESULTS}/experiments/grid.parquet",
    log:
        f"{RESULTS}/logs/grid.log",
    conda:
        "../envs/cadmus.yaml"
    threads: workflow.cores
    params:
        config=RUN.evaluate.grid.model_dump(),
    shell:
        "python -m cadmus grid --config {input.config} --model {input.model} --output {output} 2>&1 | tee -i {log}"


rule probe:
    input:
        config=ancient(CONFIG),
        model=rules.train.output.model,
        code=code("cadmus.probe.regression", "cadmus.model.inference"),
    output:
        f"{RESULTS}/experiments/probe.parquet",
    log:
        f"{RESULTS}/logs/probe.log",
    conda:
        "../envs/cadmus.yaml"
    threads: workflow.cores
    params:
        config=RUN.evaluate.probe.model_dump(),
    shell:
        "python -m cadmus probe --config {input.config} --model {input.model} --output {output} --jobs {threads}"
        " 2>&1 | tee -i {log}"


rule model_card:
    input:
        model=rules.train.output.model,
        metrics=rules.train.output.metrics,
        accuracy=rules.accuracy.output[0],
        code=code("cadmus.card"),
    output:
        report(
            f"{RESULTS}/model_card.md",
            category="Model",
        ),
    log:
        f"{RESULTS}/logs/model_card.log",
    conda:
        "../envs/cadmus.yaml"
    shell:
        "python -m cadmus card {input.model} --accuracy {input.accuracy} --metrics {input.metrics} --output {output}"
        " > {log} 2>&1"
