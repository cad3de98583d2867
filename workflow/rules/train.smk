# The model. Its checkpoints are no output: Snakemake deletes the outputs of a failed job, and a training
# that was killed continues from its last checkpoint. Once the model is exported they have done their work;
# left behind, they would stand in for a training with other code.


rule train:
    input:
        config=ancient(CONFIG),
        manifest=rules.manifest.output[0],
        code=code("cadmus.train.loop"),
    output:
        model=directory(f"{RESULTS}/model"),
        snapshots=directory(f"{RESULTS}/training/snapshots"),
        metrics=f"{RESULTS}/training/metrics.jsonl",
    log:
        f"{RESULTS}/logs/train.log",
    conda:
        "../envs/cadmus.yaml"
    threads: workflow.cores
    params:
        dataset=subpath(input.manifest, parent=True),
        config=section("seed", "model", "train"),
        checkpoints=f"{RESULTS}/training/checkpoints",
        metrics=f"{RESULTS}/training/metrics.partial.jsonl",
        snapshots=f"{RESULTS}/training/snapshots.partial",
    shell:
        "python -m cadmus train --config {input.config} --dataset {params.dataset} --checkpoints {params.checkpoints}"
        " --metrics {params.metrics} --snapshots {params.snapshots} --output {output.model} 2>&1 | tee -ia {log}"
        " && mv {params.metrics} {output.metrics} && mv {params.snapshots} {output.snapshots}"
        " && rm -r {params.checkpoints}"
