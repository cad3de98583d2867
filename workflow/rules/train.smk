# Training. Snakemake deletes the outputs of a failed job, so the checkpoints and *.partial files, from which
# `cadmus train` resumes, are not outputs.

from cadmus.planning.slurm import training_job

# srun starts one launcher per node, which starts its ranks.
SPREAD = (
    "$([ {resources.nodes} = 1 ] || echo srun --nodes={resources.nodes} --ntasks-per-node=1"
    " --cpus-per-task={threads} --kill-on-bad-exit=1)"
)
# Resources of this rule in a SLURM profile, such as train_nodes.
SITE = {
    name: resource.raw
    for name, resource in workflow.resource_settings.overwrite_resources.get(
        "train", {}
    ).items()
}

TRAINING = training_job(RUN.train.ranks, SITE)


rule train:
    input:
        manifest=manifest,
        code=code("cadmus.train.loop"),
    output:
        # Not the directory, to which the rule model_card adds a file.
        model=[f"results/{{run}}/model/{name}" for name in MODEL_FILES],
        snapshots=directory("results/{run}/training/snapshots"),
        metrics="results/{run}/training/metrics.jsonl",
    log:
        "results/{run}/logs/train.log",
    benchmark:
        "results/{run}/benchmarks/train.tsv"
    conda:
        "../envs/cadmus.yaml"
    threads: TRAINING.cores if "train_nodes" in SITE else training_cores()
    resources:
        **TRAINING.resources(),
        mem_mb=lambda wildcards, attempt, threads: attempt
        * TRAINING.memory(threads, programs(wildcards.run, "train")),
    params:
        config_file=config_file,
        dataset=subpath(input.manifest, parent=True),
        model=subpath(output[0], parent=True),
        config=section("seed", "model", "train"),
        checkpoints=lambda wildcards, output: os.path.join(
            os.path.dirname(output.metrics), "checkpoints"
        ),
    # SLURM sends SIGTERM to all processes of a job step. Shell and tee ignore it until the checkpoint is saved.
    shell:
        "trap : TERM; "
        + SPREAD
        + " python -m cadmus train --config {params.config_file} --dataset {params.dataset}"
        " --checkpoints {params.checkpoints} --metrics {output.metrics} --snapshots {output.snapshots}"
        " --output {params.model} --ranks {resources.train_gpus} 2>&1 | (trap '' TERM; exec tee -ia {log})"
