# Experiments of the registry cadmus.experiments, one Parquet file of results each, and the model card.

EXPERIMENTS = {name: experiments.get(name) for name in experiments.NAMES}


rule experiment:
    input:
        unpack(experiment_input),
        code=experiment_code,
    output:
        f"{RESULTS}/experiments/{{experiment}}.parquet",
    log:
        f"{RESULTS}/logs/{{experiment}}.log",
    wildcard_constraints:
        experiment="|".join(EXPERIMENTS),
    conda:
        "../envs/cadmus.yaml"
    threads: experiment_cores
    resources:
        gpu=1,
    params:
        config_file=config_file,
        options=experiment_options,
        config=experiment_settings,
    shell:
        "python -m cadmus evaluate {wildcards.experiment} --config {params.config_file} {params.options}"
        " --output {output} 2>&1 | tee -i {log}"


rule model_card:
    input:
        model=rules.train.output.model,
        metrics=rules.train.output.metrics,
        completions=f"{RESULTS}/experiments/completions.parquet",
        code=code("cadmus.docgen.model_card"),
    output:
        report(
            f"{MODEL}/{CARD}",
            category="Model",
        ),
    log:
        f"{RESULTS}/logs/model_card.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        model=model_directory,
    shell:
        "python -m cadmus card {params.model} --completions {input.completions} --metrics {input.metrics} --output {output}"
        " > {log} 2>&1"
