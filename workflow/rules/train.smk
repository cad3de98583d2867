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
PROGRAMS = sum(shard.rows for shard in SHARDS if shard.split == "train")


rule train:
    input:
        manifest=rules.manifest.output[0],
        code=code("cadmus.train.loop"),
    output:
        # Not directory(MODEL), to which the rule model_card adds a file.
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
    # SLURM sends SIGTERM to all processes of a job step. Shell and tee ignore it until the checkpoint is saved.
    shell:
        "trap : TERM; "
        + SPREAD
        + " python -m cadmus train --config {params.config_file} --dataset {params.dataset}"
        " --checkpoints {params.checkpoints} --metrics {output.metrics} --snapshots {output.snapshots}"
        " --output {params.model} --ranks {resources.train_gpus} 2>&1 | (trap '' TERM; exec tee -ia {log})"
