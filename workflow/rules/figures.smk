# Figures, tables and pages, drawn from result files. `snakemake results/quick/figures/NAME.pdf` draws one figure.


rule figure:
    input:
        results=figure_results,
        code=figure_code,
    output:
        pdf="results/{run}/figures/{figure}.pdf",
        png=report(
            "results/{run}/figures/{figure}.png",
            category="Figures",
            caption="../captions/result.rst",
            labels={"figure": "{figure}"},
        ),
        results="results/{run}/figures/{figure}.csv",
    log:
        "results/{run}/logs/figure-{figure}.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        results=results_options,
        caption=caption,
    shell:
        "python -m cadmus figure {wildcards.figure} {params.results} --output {output.pdf} > {log} 2>&1"


rule table:
    input:
        results=figure_results,
        code=figure_code,
    output:
        csv=report(
            "results/{run}/tables/{figure}.csv",
            category="Tables",
            caption="../captions/result.rst",
            labels={"table": "{figure}"},
        ),
        markdown="results/{run}/tables/{figure}.md",
        latex="results/{run}/tables/{figure}.tex",
    log:
        "results/{run}/logs/table-{figure}.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        results=results_options,
        caption=caption,
    shell:
        "python -m cadmus figure {wildcards.figure} {params.results} --output {output.csv} > {log} 2>&1"


rule page:
    input:
        results=figure_results,
        code=figure_code,
    output:
        report(
            "results/{run}/pages/{figure}.html",
            category="Pages",
            caption="../captions/result.rst",
            labels={"page": "{figure}"},
        ),
    log:
        "results/{run}/logs/page-{figure}.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        results=results_options,
        caption=caption,
    shell:
        "python -m cadmus figure {wildcards.figure} {params.results} --output {output} > {log} 2>&1"
