# Dataset: one job per shard, then the manifest of all shards, then the report and the card.

# If those of the held-out splits have together at most the programs of one shard, one job samples them all: a process takes
# longer to start than to sample one.
TOGETHER = all(
    programs(run) - programs(run, "train") <= RUNS[run].config.dataset.shard_size for run in DATASETS
)
# Runs by the shards of this job.
HELD_OUT = {}
for run in DATASETS if TOGETHER else ():
    files = tuple(shard.path for shard in shards(run) if shard.split != "train")
    HELD_OUT.setdefault(files, []).append(run)


rule shard:
    input:
        config="results/{run}/configs/shard.yaml",
        earlier=earlier_shards,
    output:
        "results/{run}/dataset/{split}/{template}-{number}.parquet",
    log:
        "results/{run}/logs/shard-{split}-{template}-{number}.log",
    wildcard_constraints:
        split="train" if TOGETHER else ".+",
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
    # `--cache shard` looks a shard up by its inputs and params, not by its wildcards. With a benchmark, it would fail.
    params:
        shard="--template {template} --split {split} --number {number}",
        code=lambda wildcards: code("cadmus.dataset.shards", f"cadmus.templates.{wildcards.template}"),
    shell:
        "python -m cadmus shard --config {input.config} $(dirname $(dirname {output})) {params.shard} 2>&1 | tee -i {log}"


for number, (files, runs) in enumerate(HELD_OUT.items()):

    rule:
        name:
            f"held_out_{number}" if number else "held_out"
        input:
            config="results/{run}/configs/shard.yaml",
        output:
            [f"results/{{run}}/dataset/{file}" for file in files],
        log:
            "results/{run}/logs/held_out.log",
        wildcard_constraints:
            run="|".join(runs),
        # It takes longer than most shards.
        priority: len(TEMPLATES)
        conda:
            "../envs/cadmus.yaml"
        params:
            dataset=subpath(output[0], ancestor=2),
            splits=[f"--split {split}" for split in dict.fromkeys(Path(file).parent.name for file in files)],
            code=code("cadmus.dataset.shards", *(f"cadmus.templates.{name}" for name in TEMPLATES)),
        shell:
            "python -m cadmus shard --config {input.config} {params.dataset} {params.splits} 2>&1 | tee -i {log}"


rule manifest:
    input:
        config="results/{run}/configs/manifest.yaml",
        shards=lambda wildcards: [
            f"results/{wildcards.run}/dataset/{shard.path}" for shard in shards(wildcards.run)
        ],
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
        dataset=subpath(output[0], parent=True),
        code=code("cadmus.dataset.manifest"),
    shell:
        "python -m cadmus manifest --config {input.config} {params.dataset} 2>&1 | tee -i {log}"


rule dataset_card:
    input:
        manifest=rules.manifest.output[0],
    output:
        report(f"results/{{run}}/dataset/{CARD}", category="Dataset"),
    log:
        "results/{run}/logs/dataset_card.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        dataset=subpath(input.manifest, parent=True),
        code=code("cadmus.pages.dataset"),
    shell:
        "python -m cadmus card {params.dataset} > {log} 2>&1"
