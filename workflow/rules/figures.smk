# Figures, tables and pages, each drawn from its numbers alone; `snakemake results/quick/figures/NAME.pdf` draws one.

# Beside that of Cadmus, where the config names large language models.
GRIDS = [*rules.grid.output, *(rules.llm_score.output if RUN.llm.models else [])]
DRAWN_FROM = {
    "comparison_grid": GRIDS,
    "accuracy_by_distance": rules.grid.output,
    "accuracy_by_compute": rules.curve.output,
    "output_tokens": GRIDS,
    "probe_final_block": rules.probe.output,
    "probe_layers": rules.probe.output,
    "logit_lens": rules.lens.output,
    "patching": rules.patch.output,
    "training_curve": [rules.train.output.metrics],
    "table1_related_work": [],
    "table2_instructions": [],
    "accuracy_by_length": rules.completions.output,
    "accuracy_by_examples": rules.completions.output,
    "table3_accuracy": rules.completions.output,
    "failures": rules.completions.output,
}


rule figure:
    input:
        results=lookup(within=DRAWN_FROM, dpath="{figure}"),
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
        results=lookup(within=DRAWN_FROM, dpath="{figure}"),
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
        results=lookup(within=DRAWN_FROM, dpath="{figure}"),
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
