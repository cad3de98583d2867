# What the rules share: the checked config, the shards, and the sources that a result depends on.

import os
import sys
from pathlib import Path

import yaml

# The package of this checkout. Where the workflow is a module of another one and comes from elsewhere, there is none,
# and the package that is installed is taken.
sys.path.insert(0, str(Path(str(workflow.current_basedir)).parents[1]))

import cadmus
from cadmus import experiments
from cadmus.config import TEMPLATES, extended, parse_config, read_yaml
from cadmus.report import FIGURES as DATASET_FIGURES
from cadmus.dataset.shards import plan
from cadmus.errors import InputError
from cadmus.common.files import replacing
from cadmus.docgen.hub import CARD
from cadmus.llm.models import MODELS
from cadmus.model import FILES as MODEL_FILES
from cadmus.common.sources import sources_of


def read_config():
    """The config with all its defaults.

    Raises:
        InputError: a file, key or value is wrong.
    """
    paths = [Path(os.path.relpath(path)) for path in workflow.configfiles]
    # Snakemake has read the files, but takes a key that comes twice.
    for path in paths:
        read_yaml(path)
    values = extended(config, paths[-1] if paths else Path("config"))
    return parse_config(values, ", ".join(map(str, paths)) or "config")


try:
    RUN = read_config()
except InputError as error:
    print(f"cadmus: error: {error}", file=sys.stderr)
    # Nothing is locked or started yet, so leaving at once loses nothing.
    os._exit(2)
RESULTS = f"results/{RUN.name}"
CONFIG = Path(RESULTS, "config.yaml")
CONFIG_TEXT = yaml.safe_dump(RUN.model_dump(), sort_keys=False, default_flow_style=None)
# The report shows it.
config["resolved"] = CONFIG_TEXT
SHARDS = plan(RUN)
FIGURES = experiments.figures()
DATASET = f"{RESULTS}/dataset"
MODEL = f"{RESULTS}/model"
# The same package, and the Python that runs Snakemake unless --sdm brings another. A prefix
# takes the place of Snakemake's own, which stops a command at its first part that fails: without it, a
# training that was interrupted would lose its checkpoints.
ROOT = Path(cadmus.__file__).parents[1]
STRICT = f'set -euo pipefail; export PYTHONPATH="{ROOT}"; '
if not workflow.deployment_settings.deployment_method:
    STRICT += f'export PATH="{Path(sys.executable).parent}:$PATH"; '
# In a job of a cluster, where a training that is told to stop is to go on later.
if workflow.remote_exec:
    STRICT += "export CADMUS_REQUEUE=1; "
shell.prefix(STRICT)


def memory(megabytes):
    """Memory of a job, more when it is tried again."""
    return lambda wildcards, attempt: attempt * megabytes


def config_file(wildcards):
    """The path of the config with all its defaults. A run that starts jobs writes the file here.

    Snakemake asks for the parameters of a job before it starts the job. Making the file an output would not do:
    Snakemake ignores changed parameters downstream of a job that is to run. A module has no `onstart`.
    """
    starts_jobs = workflow.executor_plugin is not None and not workflow.dryrun
    if starts_jobs and not (CONFIG.is_file() and CONFIG.read_text() == CONFIG_TEXT):
        try:
            with replacing(CONFIG) as temporary:
                temporary.write_text(CONFIG_TEXT)
        except InputError as error:
            print(f"cadmus: error: {error}", file=sys.stderr)
            sys.exit(2)
    return str(CONFIG)


def section(*names):
    """Values of the config that decide a result, as the parameter that makes Snakemake run it again."""
    values = RUN.model_dump()
    return {name: values[name] for name in names}


def code(*modules):
    """The source files of modules and of what they import, relative to the working directory."""
    return [os.path.relpath(path) for path in sources_of(*modules)]


def shard_code(wildcards):
    return code("cadmus.dataset.writer", f"cadmus.templates.{wildcards.template}")


def earlier_shards(wildcards):
    """The shards of the same template and split with lower numbers."""
    return [
        f"{DATASET}/{shard.path}"
        for shard in SHARDS
        if shard[:2] == (wildcards.template, wildcards.split)
        and shard.number < int(wildcards.number)
    ]


def experiment_input(wildcards):
    """The model or the snapshots, and the dataset if the experiment reads it."""
    experiment = EXPERIMENTS[wildcards.experiment]
    train = rules.train.output
    found = (
        {"snapshots": train.snapshots}
        if experiment.snapshots
        else {"model": train.model}
    )
    return found | (
        {"manifest": rules.manifest.output[0]} if experiment.dataset else {}
    )


def experiment_code(wildcards):
    return code(f"cadmus.experiments.{wildcards.experiment}", "cadmus.model.inference")


def experiment_options(wildcards, input):
    experiment = EXPERIMENTS[wildcards.experiment]
    dataset = f" --dataset {DATASET}" if experiment.dataset else ""
    if experiment.snapshots:
        return f"--snapshots {input.snapshots}{dataset}"
    return f"--model {MODEL}{dataset}"


def experiment_cores(wildcards):
    return min(workflow.cores, EXPERIMENTS[wildcards.experiment].cores)


def experiment_gpus(wildcards):
    return EXPERIMENTS[wildcards.experiment].gpus


def experiment_settings(wildcards):
    """The settings that decide the results."""
    shared = (
        {"split", "batch_size"} if EXPERIMENTS[wildcards.experiment].dataset else set()
    )
    return RUN.evaluate.model_dump(include={wildcards.experiment, *shared})


def figure_results(wildcards):
    """The result files that a figure is drawn from."""
    made = {"metrics": rules.train.output.metrics, "llm": rules.llm_score.output[0]}
    return [
        made.get(source, f"{RESULTS}/experiments/{source}.parquet")
        for source in FIGURES[wildcards.figure].sources
        if source != "llm" or RUN.llm.models
    ]


def figure_code(wildcards):
    drawn_by = FIGURES[wildcards.figure].module
    return code(
        "cadmus.experiments.drawing", drawn_by or f"cadmus.figures.{wildcards.figure}"
    )


def caption(wildcards):
    return FIGURES[wildcards.figure].caption


def results_options(wildcards, input):
    return " ".join(f"--results {path}" for path in input.results)


def model_directory(wildcards, input):
    return os.path.dirname(input.model[0])


def targets():
    """Every figure, table and page, and what they are made from; the cards of dataset and model."""
    return [f"{DATASET}/{CARD}", f"{MODEL}/{CARD}"] + [
        f"{RESULTS}/{figure.kind}s/{figure.name}{suffix}"
        for figure in FIGURES.values()
        for suffix in experiments.FORMATS[figure.kind]
    ]
