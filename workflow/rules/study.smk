# The results of all runs of a study in one file, and their comparison.


rule study:
    input:
        results=study_results,
        code=code("cadmus.study.results"),
    output:
        "results/{study}/study.parquet",
    log:
        "results/{study}/logs/study.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        config_file=study_file,
        directory=subpath(output[0], ancestor=2),
        partial=subpath(output[0], parent=True),
        config=lambda wildcards: VALUES["study"],
    shell:
        "python -m cadmus study collect {params.config_file} --results {params.directory} --output {output}"
        " 2>&1 | tee -i {log}; rm -rf {params.partial}/partial"


rule study_page:
    input:
        results=rules.study.output[0],
        code=code("cadmus.study.drawing"),
    output:
        report(
            [f"results/{{study}}/{file}" for file in STUDY_FILES],
            category="Study",
        ),
    log:
        "results/{study}/logs/study_page.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        directory=subpath(input.results, parent=True),
    shell:
        "python -m cadmus study draw {input.results} --output {params.directory} > {log} 2>&1"
