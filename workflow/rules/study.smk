# The results of all runs of a study in one file, and their comparison.


localrules:
    study,


# Compare the finished runs and say why the others failed. Not in the files of the finished study: Snakemake would not
# run the missing jobs again.
onerror:
    partial = f"results/{STUDY.name}/partial"
    write_text(Path(partial, "config.yaml"), as_yaml(VALUES))
    shell(
        "python -m cadmus study collect {partial}/config.yaml --output {partial}/study.parquet"
        " && python -m cadmus study draw {partial}/study.parquet --output {partial} > /dev/null"
        " && echo 'cadmus: the finished runs are in {partial}/README.md' >&2"
    )


use rule config as study_config with:
    output:
        "results/{study}/configs/study.yaml",
    log:
        "results/{study}/logs/config-study.log",
    params:
        text=lambda wildcards: as_yaml(VALUES),


rule study:
    input:
        config=rules.study_config.output[0],
        trainings=[f"results/{run.training}/training/metrics.jsonl" for run in STUDY.runs],
        experiments=[
            f"results/{run.evaluation}/experiments/{experiment}.parquet"
            for run in STUDY.runs
            for experiment in STUDY.study.experiments
        ],
    output:
        results="results/{study}/study.parquet",
        page=[f"results/{{study}}/{file}" for file in FILES],
    log:
        "results/{study}/logs/study.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        directory="results/{study}",
        code=code("cadmus.study.results", "cadmus.study.page"),
    shell:
        "(python -m cadmus study collect {input.config} --output {output.results}"
        " && python -m cadmus study draw {output.results} --output {params.directory} > /dev/null) 2>&1"
        " | tee -i {log}; rm -rf {params.directory}/partial"
