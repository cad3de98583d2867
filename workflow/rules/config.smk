# The config of each step: the sections that it depends on, as an input. A changed value reruns the steps that have it.


# A single file for all steps would rerun everything, or too little as `ancient()`: while Snakemake runs the job of an ancient
# input, it does not compare the params of the jobs downstream (its issue 4166).
rule config:
    output:
        "results/{run}/configs/{step}.yaml",
    log:
        "results/{run}/logs/config-{step}.log",
    wildcard_constraints:
        step="|".join((*SECTIONS, *EXPERIMENTS)),
    localrule: True
    conda:
        "../envs/cadmus.yaml"
    params:
        text=step_config,
    shell:
        "printf %s {params.text:q} > {output} 2> {log}"
