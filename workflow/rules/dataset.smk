# Dataset: one job per shard, then the manifest of all shards, then the report and the card.


rule shard:
    input:
        earlier=earlier_shards,
        code=shard_code,
    output:
        f"{DATASET}/{{split}}/{{template}}-{{number}}.parquet",
    log:
        f"{RESULTS}/logs/shard-{{split}}-{{template}}-{{number}}.log",
    # Shards of a template run in sequence, and later templates take longer.
    priority: lambda wildcards: TEMPLATES.index(wildcards.template)
    group:
        "shards"
    conda:
        "../envs/cadmus.yaml"
    resources:
        # Three times the measured memory.
        mem_mb=memory(1_500 + RUN.dataset.shard_size // 1_000),
    params:
        config_file=config_file,
        dataset=subpath(output[0], ancestor=2),
        config=section("seed", "dataset"),
    shell:
        "python -m cadmus shard --config {params.config_file} {params.dataset} --template {wildcards.template}"
        " --split {wildcards.split} --number {wildcards.number} 2>&1 | tee -i {log}"


rule manifest:
    input:
        shards=[f"{DATASET}/{shard.path}" for shard in SHARDS],
        code=code("cadmus.dataset.manifest"),
    output:
        f"{DATASET}/manifest.json",
    log:
        f"{RESULTS}/logs/manifest.log",
    conda:
        "../envs/cadmus.yaml"
    threads: workflow.cores
    resources:
        mem_mb=memory(2_000 + sum(shard.rows for shard in SHARDS) * 60 // 10**6),
    params:
        config_file=config_file,
        dataset=subpath(output[0], parent=True),
        config=section("seed", "dataset"),
    shell:
        "python -m cadmus manifest --config {params.config_file} {params.dataset} 2>&1 | tee -i {log}"


rule dataset_report:
    input:
        manifest=rules.manifest.output[0],
        code=code("cadmus.report.report"),
    output:
        report(
            [f"{DATASET}/report.md", f"{DATASET}/{CARD}"],
            category="Dataset",
        ),
        report(
            expand(f"{DATASET}/report/{{figure}}.png", figure=DATASET_FIGURES),
            category="Dataset",
        ),
        expand(
            f"{DATASET}/report/{{figure}}.{{suffix}}",
            figure=DATASET_FIGURES,
            suffix=["pdf", "csv"],
        ),
    log:
        f"{RESULTS}/logs/dataset_report.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        dataset=subpath(input.manifest, parent=True),
    shell:
        "python -m cadmus report {params.dataset} > {log} 2>&1"
