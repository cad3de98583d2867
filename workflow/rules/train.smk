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
    shell:
        "python -m cadmus train --config {input.config} --dataset {params.dataset} --checkpoints {params.checkpoints}"
        " --metrics {params.metrics} --output {output.model} 2>&1 | tee -ia {log}"
        " && mv {params.metrics} {output.metrics} && rm -r {params.checkpoints}"
