# The results of all runs of a study in one file, and their comparison.

from cadmus.study import files_of

STUDY_FILES = files_of(STUDY.study.has_law)


localrules:
    study,
    study_page,


# Compare the finished runs and say why the others failed. Not in the files of the finished study: Snakemake would not
# run the missing jobs again.
onerror:
    study = write_config(Path("results", STUDY.name, "config.yaml"), VALUES)
    partial = f"results/{STUDY.name}/partial"
    shell(
        "python -m cadmus study collect {study} --output {partial}/study.parquet"
        " && python -m cadmus study draw {partial}/study.parquet --output {partial} > /dev/null"
        " && echo 'cadmus: the finished runs are in {partial}/README.md' >&2"
    )


rule study:
    input:
        trainings=[f"results/{run.training}/training/metrics.jsonl" for run in STUDY.runs],
        experiments=[
            f"results/{run.evaluation}/experiments/{experiment}.parquet"
            for run in STUDY.runs
            for experiment in STUDY.study.experiments
        ],
        code=code("cadmus.study.results"),
    output:
        "results/{study}/study.parquet",
    log:
        "results/{study}/logs/study.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        config_file=lambda wildcards, output: write_config(Path(output[0]).with_name("config.yaml"), VALUES),
        directory=subpath(output[0], ancestor=2),
        config=lambda wildcards: VALUES["study"],
    shell:
        "python -m cadmus study collect {params.config_file} --results {params.directory} --output {output}"
        " 2>&1 | tee -i {log}; rm -rf {params.directory}/{wildcards.study}/partial"


rule study_page:
    input:
        results=rules.study.output[0],
        code=code("cadmus.study.page"),
    output:
        report([f"results/{{study}}/{file}" for file in STUDY_FILES], category="Study"),
    log:
        "results/{study}/logs/study_page.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        directory=subpath(input.results, parent=True),
    shell:
        "python -m cadmus study draw {input.results} --output {params.directory} > {log} 2>&1"
