# What is measured on the trained model: one Parquet file of numbers each.


rule accuracy:
    input:
        config=ancient(rules.resolved_config.output),
        model=rules.train.output.model,
        manifest=rules.manifest.output,
        code=code("cadmus.evaluate.completion", "cadmus.model.inference"),
    output:
        f"{RESULTS}/experiments/accuracy.parquet",
    params:
        config=RUN.evaluate.model_dump(exclude={"grid", "probe"}),
    log:
        f"{RESULTS}/logs/accuracy.log",
    threads: workflow.cores
    shell:
        "cadmus evaluate --config {input.config} --model {input.model} --dataset {DATASET}"
        " --output {output} 2>&1 | tee {log}"


rule grid:
    input:
        config=ancient(rules.resolved_config.output),
        model=rules.train.output.model,
        code=code("cadmus.evaluate.grid", "cadmus.model.inference"),
    output:
        f"{RESULTS}/experiments/grid.parquet",
    params:
        config=RUN.evaluate.grid.model_dump(),
    log:
        f"{RESULTS}/logs/grid.log",
    threads: workflow.cores
    shell:
        "cadmus grid --config {input.config} --model {input.model} --output {output} 2>&1 | tee {log}"


rule probe:
    input:
        config=ancient(rules.resolved_config.output),
        model=rules.train.output.model,
        code=code("cadmus.probe.regression", "cadmus.model.inference"),
    output:
        f"{RESULTS}/experiments/probe.parquet",
    params:
        config=RUN.evaluate.probe.model_dump(),
    log:
        f"{RESULTS}/logs/probe.log",
    threads: workflow.cores
    shell:
        "cadmus probe --config {input.config} --model {input.model} --output {output} --jobs {threads}"
        " 2>&1 | tee {log}"
