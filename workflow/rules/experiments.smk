# Experiments of the registry cadmus.experiments, one Parquet file of results each, and the model card.


rule experiment:
    input:
        unpack(experiment_input),
        config="results/{run}/configs/{experiment}.yaml",
    output:
        "results/{run}/experiments/{experiment}.parquet",
    log:
        "results/{run}/logs/{experiment}.log",
    benchmark:
        "results/{run}/benchmarks/{experiment}.tsv"
    wildcard_constraints:
        experiment="|".join(EXPERIMENTS),
    # The longest first, so that two cores are busy to the end; figures wait.
    priority: lambda wildcards: EXPERIMENTS[wildcards.experiment].seconds
    conda:
        "../envs/cadmus.yaml"
    # Two at a time, because starting, drawing programs and grading have one thread; a GPU serves one.
    threads: CORES if has_gpu() else max(1, CORES // 2)
    resources:
        gpu=1,
    params:
        options=experiment_options,
        code=lambda wildcards: code(experiments.module_of(wildcards.experiment), "cadmus.model.inference"),
    shell:
        # Progress is for the terminal and the log, the table of results for the log alone.
        ": > {log}; python -m cadmus evaluate {wildcards.experiment} --config {input.config} {params.options}"
        " --output {output} 2>&1 >> {log} | tee -ia {log} >&2"


# What the model is compared with depends on the dataset alone: its runs, and trainings that are repeated, share it.
rule baselines:
    input:
        config="results/{run}/configs/baselines.yaml",
        manifest="results/{run}/dataset/manifest.json",
    output:
        "results/{run}/experiments/baselines.parquet",
    log:
        "results/{run}/logs/baselines.log",
    benchmark:
        "results/{run}/benchmarks/baselines.tsv"
    # Before all experiments: one of the longest waits for it.
    priority: 500
    conda:
        "../envs/cadmus.yaml"
    params:
        dataset=subpath(input.manifest, parent=True),
        code=code("cadmus.evaluate.baselines.policies"),
    shell:
        "python -m cadmus baselines --config {input.config} --dataset {params.dataset} --output {output}"
        " 2>&1 | tee -ia {log}"


rule model_card:
    input:
        model=model,
        completions="results/{run}/experiments/completions.parquet",
    output:
        f"results/{{run}}/model/{CARD}",
    log:
        "results/{run}/logs/model_card.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        model=subpath(output[0], parent=True),
        code=code("cadmus.pages.model"),
    shell:
        "python -m cadmus card {params.model} --completions {input.completions} --output {output}"
        " > {log} 2>&1"
