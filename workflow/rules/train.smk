# Training. Snakemake deletes the outputs of a failed job, so the checkpoints and *.partial files, from which
# `cadmus train` resumes, are not outputs.

# Resources of this rule in a SLURM profile, such as train_gpus.
OVERWRITTEN = workflow.resource_settings.overwrite_resources.get("train", {})
SITE = {name: resource.raw for name, resource in OVERWRITTEN.items()}
# 0 on CPUs, or to use the GPUs that are visible.
GPUS = SITE.get("train_gpus", 0 if RUN.train.ranks == "auto" else RUN.train.ranks)
# Resources that Snakemake's SLURM plugin converts to `sbatch` options.
RESOURCES = {"nodes": 1, "train_gpus": GPUS}
if GPUS and "train_partition" in SITE:
    RESOURCES["slurm_partition"] = SITE["train_partition"]
MODEL = SITE.get("train_gpu_model")
if GPUS:
    RESOURCES |= {"gpu": GPUS} | ({"gpu_model": MODEL} if MODEL else {})


rule train:
    input:
        config="results/{run}/configs/train.yaml",
        manifest=manifest,
        init=initial_weights,
    output:
        # Not the directory, to which the rule model_card adds a file.
        model=[f"results/{{run}}/model/{name}" for name in MODEL_FILES],
        snapshots=directory("results/{run}/training/snapshots"),
        metrics="results/{run}/training/metrics.jsonl",
    log:
        "results/{run}/logs/train.log",
    benchmark:
        "results/{run}/benchmarks/train.tsv"
    # It takes all cores; baselines can wait.
    priority: 2_000
    conda:
        "../envs/cadmus.yaml"
    # On a cluster, whose profile has options of sbatch, 8 per GPU, or 16 without GPUs.
    threads: 8 * GPUS or 16 if "slurm_extra" in SITE else CORES
    resources:
        **RESOURCES,
        mem_mb=lambda wildcards, attempt, threads: attempt
        * training_memory(RUNS[wildcards.run].config, GPUS, threads, programs(wildcards.run, "train"))
        // 10**6,
    params:
        dataset=subpath(input.manifest, parent=True),
        model=subpath(output[0], parent=True),
        training=subpath(output.metrics, parent=True),
        code=lambda wildcards: code(
            "cadmus.train.loop",
            *(
                module_of("OBJECTIVES", name, "cadmus.train.objectives")
                for name in RUNS[wildcards.run].config.objectives
            ),
        ),
    # SLURM sends SIGTERM to all processes of a job step, a closed terminal SIGHUP. Shell and tee ignore them until the
    # checkpoint is saved.
    shell:
        "trap : TERM HUP; python -m cadmus train --config {input.config} --dataset {params.dataset}"
        " --checkpoints {params.training}/checkpoints --metrics {output.metrics} --snapshots {output.snapshots}"
        " --output {params.model} --ranks {resources.train_gpus} 2>&1 | (trap '' TERM HUP; exec tee -ia {log})"
