# The model. Snakemake deletes the outputs of a failed job, so what a resumed training needs is not an output:
# `cadmus train` keeps it in the checkpoints and in *.partial files until the model is exported.

from cadmus.planning.slurm import training_job

# One launcher per node starts the ranks there.
SPREAD = (
    "$([ {resources.nodes} = 1 ] || echo srun --nodes={resources.nodes} --ntasks-per-node=1"
    " --cpus-per-task={threads} --kill-on-bad-exit=1)"
)
# Nodes and GPUs of this rule, from a SLURM profile.
SITE = {
    name: resource.raw
    for name, resource in workflow.resource_settings.overwrite_resources.get(
        "train", {}
    ).items()
}
TRAINING = training_job(RUN.train.ranks, SITE)
PROGRAMS = sum(shard.rows for shard in SHARDS if shard.split == "train")


rule train:
    input:
        manifest=rules.manifest.output[0],
        code=code("cadmus.train.loop"),
    output:
        # Not directory(MODEL): the rule `card` adds to it.
        model=[f"{MODEL}/{name}" for name in MODEL_FILES],
        snapshots=directory(f"{RESULTS}/training/snapshots"),
        metrics=f"{RESULTS}/training/metrics.jsonl",
    log:
        f"{RESULTS}/logs/train.log",
    conda:
        "../envs/cadmus.yaml"
    threads: TRAINING.cores if "train_nodes" in SITE else workflow.cores
    resources:
        **TRAINING.resources(),
        mem_mb=lambda wildcards, attempt, threads: attempt
        * TRAINING.memory(threads, PROGRAMS),
    params:
        config_file=config_file,
        dataset=subpath(input.manifest, parent=True),
        model=subpath(output[0], parent=True),
        config=section("seed", "model", "train"),
        checkpoints=f"{RESULTS}/training/checkpoints",
    # SLURM sends SIGTERM to every process of a job step; shell and tee wait for the training to save a checkpoint.
    shell:
        "trap : TERM; "
        + SPREAD
        + " python -m cadmus train --config {params.config_file} --dataset {params.dataset}"
        " --checkpoints {params.checkpoints} --metrics {output.metrics} --snapshots {output.snapshots}"
        " --output {params.model} --ranks {resources.train_gpus} 2>&1 | (trap '' TERM; exec tee -ia {log})"
