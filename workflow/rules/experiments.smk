# What is measured on the trained model: one Parquet file of numbers each; and its card.


rule completions:
    input:
        model=rules.train.output.model,
        manifest=rules.manifest.output[0],
        code=code("cadmus.evaluate.completion", "cadmus.model.inference"),
    output:
        f"{RESULTS}/experiments/completions.parquet",
    log:
        f"{RESULTS}/logs/completions.log",
    conda:
        "../envs/cadmus.yaml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        config_file=config_file,
        model=model_directory,
        dataset=subpath(input.manifest, parent=True),
        config=RUN.evaluate.model_dump(include={"split", "programs", "batch_size"}),
    shell:
        "python -m cadmus evaluate --config {params.config_file} --model {params.model} --dataset {params.dataset}"
        " --output {output} 2>&1 | tee -i {log}"


rule curve:
    input:
        snapshots=rules.train.output.snapshots,
        manifest=rules.manifest.output[0],
        code=code("cadmus.evaluate.curve", "cadmus.model.inference"),
    output:
        f"{RESULTS}/experiments/curve.parquet",
    log:
        f"{RESULTS}/logs/curve.log",
    conda:
        "../envs/cadmus.yaml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        config_file=config_file,
        dataset=subpath(input.manifest, parent=True),
        config=RUN.evaluate.model_dump(
            include={"split", "snapshot_programs", "batch_size"}
        ),
    shell:
        "python -m cadmus curve --config {params.config_file} --snapshots {input.snapshots} --dataset {params.dataset}"
        " --output {output} 2>&1 | tee -i {log}"


rule grid:
    input:
        model=rules.train.output.model,
        code=code("cadmus.evaluate.grid", "cadmus.model.inference"),
    output:
        f"{RESULTS}/experiments/grid.parquet",
    log:
        f"{RESULTS}/logs/grid.log",
    conda:
        "../envs/cadmus.yaml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        config_file=config_file,
        model=model_directory,
        config=RUN.evaluate.grid.model_dump(),
    shell:
        "python -m cadmus grid --config {params.config_file} --model {params.model} --output {output} 2>&1 | tee -i {log}"


rule probe:
    input:
        model=rules.train.output.model,
        code=code("cadmus.probe.regression", "cadmus.model.inference"),
    output:
        f"{RESULTS}/experiments/probe.parquet",
    log:
        f"{RESULTS}/logs/probe.log",
    conda:
        "../envs/cadmus.yaml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        config_file=config_file,
        model=model_directory,
        config=RUN.evaluate.probe.model_dump(),
    shell:
        "python -m cadmus probe --config {params.config_file} --model {params.model} --output {output} 2>&1 | tee -i {log}"


rule lens:
    input:
        model=rules.train.output.model,
        code=code("cadmus.probe.lens", "cadmus.model.inference"),
    output:
        f"{RESULTS}/experiments/lens.parquet",
    log:
        f"{RESULTS}/logs/lens.log",
    conda:
        "../envs/cadmus.yaml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        config_file=config_file,
        model=model_directory,
        config=RUN.evaluate.lens_programs,
    shell:
        "python -m cadmus lens --config {params.config_file} --model {params.model} --output {output} 2>&1 | tee -i {log}"


rule patch:
    input:
        model=rules.train.output.model,
        code=code("cadmus.probe.patching", "cadmus.model.inference"),
    output:
        f"{RESULTS}/experiments/patch.parquet",
    log:
        f"{RESULTS}/logs/patch.log",
    conda:
        "../envs/cadmus.yaml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        config_file=config_file,
        model=model_directory,
        config=RUN.evaluate.patch_programs,
    shell:
        "python -m cadmus patch --config {params.config_file} --model {params.model} --output {output} 2>&1 | tee -i {log}"


rule model_card:
    input:
        model=rules.train.output.model,
        metrics=rules.train.output.metrics,
        completions=rules.completions.output[0],
        code=code("cadmus.docgen.model_card"),
    output:
        report(
            f"{MODEL}/{CARD}",
            category="Model",
        ),
    log:
        f"{RESULTS}/logs/model_card.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        model=model_directory,
    shell:
        "python -m cadmus card {params.model} --completions {input.completions} --metrics {input.metrics} --output {output}"
        " > {log} 2>&1"
