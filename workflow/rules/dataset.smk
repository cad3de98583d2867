# Dataset: one job per shard, then the manifest of all shards.

# The held-out shards, if all runs have the same, of at most the programs of two: one process samples them as fast as it starts.
lists = {tuple(each for each in shards(run.dataset) if each.split != "train") for run in RUNS.values()}
small = len(lists) == 1 and sum(shard.rows for shard in min(lists)) <= 2 * RUN.dataset.shard_size
HELD_OUT = lists.pop() if small else ()


rule shard:
    input:
        config="results/{run}/configs/shard.yaml",
        earlier=lambda wildcards: [
            f"results/{wildcards.run}/dataset/data/{wildcards.split}/{wildcards.template}-{number:04d}.parquet"
            for number in range(int(wildcards.number))
        ],
    output:
        "results/{run}/dataset/data/{split}/{template}-{number}.parquet",
    log:
        "results/{run}/logs/shard-{split}-{template}-{number}.log",
    wildcard_constraints:
        split="train" if HELD_OUT else ".+",
    # Shards of a template run in sequence, and later templates take longer; held-out ones take longest.
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
        "set -- {output}; python -m cadmus shard --config {input.config} ${{1%/data/*}} {params.shard} 2>&1 | tee -i {log}"


if HELD_OUT:

    use rule shard as held_out with:
        input:
            config="results/{run}/configs/shard.yaml",
        output:
            [f"results/{{run}}/dataset/{shard.path}" for shard in HELD_OUT],
        log:
            "results/{run}/logs/held_out.log",
        priority: len(TEMPLATES)
        group:
            "held_out"
        params:
            shard=[f"--split {split}" for split in sorted({shard.split for shard in HELD_OUT})],
            code=code("cadmus.dataset.shards", *(f"cadmus.templates.{shard.template}" for shard in HELD_OUT)),


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
