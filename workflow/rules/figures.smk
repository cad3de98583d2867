# Figures, tables and pages, drawn from result files. `snakemake results/quick/figures/NAME.pdf` draws one figure.


rule figure:
    input:
        results=figure_results,
        code=figure_code,
    output:
        pdf=f"{RESULTS}/figures/{{figure}}.pdf",
        png=report(
            f"{RESULTS}/figures/{{figure}}.png",
            category="Figures",
            caption="../captions/result.rst",
            labels={"figure": "{figure}"},
        ),
        results=f"{RESULTS}/figures/{{figure}}.csv",
    log:
        f"{RESULTS}/logs/figure-{{figure}}.log",
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
            f"{RESULTS}/tables/{{figure}}.csv",
            category="Tables",
            caption="../captions/result.rst",
            labels={"table": "{figure}"},
        ),
        markdown=f"{RESULTS}/tables/{{figure}}.md",
        latex=f"{RESULTS}/tables/{{figure}}.tex",
    log:
        f"{RESULTS}/logs/table-{{figure}}.log",
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
            f"{RESULTS}/pages/{{figure}}.html",
            category="Pages",
            caption="../captions/result.rst",
            labels={"page": "{figure}"},
        ),
    log:
        f"{RESULTS}/logs/page-{{figure}}.log",
    conda:
        "../envs/cadmus.yaml"
    params:
        results=results_options,
        caption=caption,
    shell:
        "python -m cadmus figure {wildcards.figure} {params.results} --output {output} > {log} 2>&1"
