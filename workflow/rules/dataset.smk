# Dataset: one job per shard, then the manifest of all shards, then the report and the card.


rule shard:
    input:
        earlier=earlier_shards,
        code=lambda wildcards: code("cadmus.dataset.shards", f"cadmus.templates.{wildcards.template}"),
    output:
        "results/{run}/dataset/{split}/{template}-{number}.parquet",
    log:
        "results/{run}/logs/shard-{split}-{template}-{number}.log",
    benchmark:
        "results/{run}/benchmarks/shard-{split}-{template}-{number}.tsv"
    # Shards of a template run in sequence, and later templates take longer.
    priority: lambda wildcards: TEMPLATES.index(wildcards.template)
    group:
        "shards"
    conda:
        "../envs/cadmus.yaml"
    resources:
        # Three times the measured memory. Each attempt gets more.
        mem_mb=lambda wildcards, attempt: attempt
        * (1_500 + RUNS[wildcards.run].config.dataset.shard_size // 1_000),
    params:
        config_file=config_file,
        dataset=subpath(output[0], ancestor=2),
        config=section("seed", "dataset"),
    shell:
        "python -m cadmus shard --config {params.config_file} {params.dataset} --template {wildcards.template}"
        " --split {wildcards.split} --number {wildcards.number} 2>&1 | tee -i {log}"


rule manifest:
    input:
        shards=lambda wildcards: [
            f"results/{wildcards.run}/dataset/{shard.path}" for shard in shards(wildcards.run)
        ],
        code=code("cadmus.dataset.manifest"),
    output:
        "results/{run}/dataset/manifest.json",
    log:
        "results/{run}/logs/manifest.log",
    benchmark:
        "results/{run}/benchmarks/manifest.tsv"
    conda:
        "../envs/cadmus.yaml"
    threads: ALL_CORES
    resources:
        mem_mb=lambda wildcards, attempt: attempt * (2_000 + programs(wildcards.run) * 60 // 10**6),
    params:
        config_file=config_file,
        dataset=subpath(output[0], parent=True),
        config=section("seed", "dataset"),
    shell:
        "python -m cadmus manifest --config {params.config_file} {params.dataset} 2>&1 | tee -i {log}"


rule dataset_card:
    input:
        manifest=rules.manifest.output[0],
        code=code("cadmus.pages.dataset"),
    output:
        report(f"results/{{run}}/dataset/{CARD}", category="Dataset"),
    log:
        "results/{run}/logs/dataset_card.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        dataset=subpath(input.manifest, parent=True),
    shell:
        "python -m cadmus card {params.dataset} > {log} 2>&1"
