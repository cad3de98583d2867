# The model. Its checkpoints are no output: Snakemake deletes the outputs of a failed job, and a training
# that was killed continues from its last checkpoint. Once the model is exported they have done their work;
# left behind, they would stand in for a training with other code.

from cadmus.planning.slurm import training_job

# On several nodes, one launcher on each, which starts the ranks there.
SPREAD = (
    "$([ {resources.nodes} = 1 ] || echo srun --nodes={resources.nodes} --ntasks-per-node=1"
    " --cpus-per-task={threads} --kill-on-bad-exit=1)"
)
# Set by the profile for this rule: on SLURM its nodes and GPUs, elsewhere nothing.
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
        # One by one, as the card of the model comes to lie beside them.
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
        card=f"{MODEL}/{CARD}",
        config=section("seed", "model", "train"),
        checkpoints=f"{RESULTS}/training/checkpoints",
        metrics=f"{RESULTS}/training/metrics.partial.jsonl",
        snapshots=f"{RESULTS}/training/snapshots.partial",
    # SIGTERM reaches every process of a job step; only the training is to act on it. The card of an earlier model
    # would be in the way of this one.
    shell:
        "trap : TERM; rm -f {params.card}; "
        + SPREAD
        + " python -m cadmus train --config {params.config_file} --dataset {params.dataset}"
        " --checkpoints {params.checkpoints} --metrics {params.metrics} --snapshots {params.snapshots}"
        " --output {params.model} --ranks {resources.train_gpus} 2>&1 | (trap '' TERM; exec tee -ia {log})"
        " && mv {params.metrics} {output.metrics} && mv {params.snapshots} {output.snapshots}"
        " && rm -r {params.checkpoints}"
