# Figures and tables. One job draws all that have the same result files, because a process takes longer to start
# than to draw: `snakemake results/quick/figures/NAME.pdf` draws NAME with the others of its job.

DRAWN = {}
for each in FIGURES.values():
    DRAWN.setdefault(each.sources, []).append(each)


for sources, drawn in DRAWN.items():
    job = f"draw_{'_'.join(sources) or 'constants'}"

    rule:
        name:
            job
        input:
            results=functools.partial(results_of, sources),
        output:
            **{each.name: files_of(each) for each in drawn},
        log:
            f"results/{{run}}/logs/{job}.log",
        # As soon as its results are there: one that comes last would draw on one core alone.
        priority: 1_000
        localrule: True
        conda:
            "../envs/cadmus.yaml"
        params:
            names=[each.name for each in drawn],
            results=lambda wildcards, input: [f"--results {path}" for path in input.results],
            outputs=lambda wildcards, output: [f"--output {files[0]}" for _, files in output.items()],
            code=code(
                "cadmus.experiments.drawing",
                *(each.module or f"cadmus.figures.{each.name}" for each in drawn),
            ),
        shell:
            "python -m cadmus figure {params.names} {params.results} {params.outputs} > {log} 2>&1"
