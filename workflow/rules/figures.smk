# Figures, tables and pages, drawn from result files. `snakemake results/quick/figures/NAME.pdf` draws one figure.


rule figure:
    input:
        results=figure_results,
        code=lambda wildcards: code(
            "cadmus.experiments.drawing",
            FIGURES[wildcards.figure].module or f"cadmus.figures.{wildcards.figure}",
        ),
    output:
        drawn="results/{run}/figures/{figure}.pdf",
        png=result("results/{run}/figures/{figure}.png", "figure"),
        data="results/{run}/figures/{figure}.csv",
    log:
        "results/{run}/logs/figure-{figure}.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        results=lambda wildcards, input: " ".join(f"--results {path}" for path in input.results),
        caption=lambda wildcards: FIGURES[wildcards.figure].caption,
    shell:
        "python -m cadmus figure {wildcards.figure} {params.results} --output {output.drawn} > {log} 2>&1"


use rule figure as table with:
    output:
        drawn=result("results/{run}/tables/{figure}.csv", "table"),
        markdown="results/{run}/tables/{figure}.md",
    log:
        "results/{run}/logs/table-{figure}.log",


use rule figure as page with:
    output:
        drawn=result("results/{run}/pages/{figure}.html", "page"),
    log:
        "results/{run}/logs/page-{figure}.log",
