# Shared by the rules: the validated config, paths, and input and params functions.

import os
import sys
from pathlib import Path

import yaml

# Import the package of this checkout. If the workflow is a remote module of another one, import the installed package.
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
    """Return the config with its defaults.

    Raises:
        InputError: a file, key or value is invalid.
    """
    paths = [Path(os.path.relpath(path)) for path in workflow.configfiles]
    # Unlike Snakemake, read_yaml rejects duplicate keys.
    for path in paths:
        read_yaml(path)
    values = extended(config, paths[-1] if paths else Path("config"))
    return parse_config(values, ", ".join(map(str, paths)) or "config")


try:
    RUN = read_config()
except InputError as error:
    print(f"cadmus: error: {error}", file=sys.stderr)
    # Nothing is locked or running yet, so exiting at once is safe.
    os._exit(2)
RESULTS = f"results/{RUN.name}"
CONFIG = Path(RESULTS, "config.yaml")
CONFIG_TEXT = yaml.safe_dump(RUN.model_dump(), sort_keys=False, default_flow_style=None)
# For the report.
config["resolved"] = CONFIG_TEXT
SHARDS = plan(RUN)
FIGURES = experiments.figures()
DATASET = f"{RESULTS}/dataset"
MODEL = f"{RESULTS}/model"
# Jobs use this package, and the Python of Snakemake unless --sdm provides another. This prefix replaces Snakemake's
# own, so it must set strict mode.
ROOT = Path(cadmus.__file__).parents[1]
STRICT = f'set -euo pipefail; export PYTHONPATH="{ROOT}"; '
if not workflow.deployment_settings.deployment_method:
    STRICT += f'export PATH="{Path(sys.executable).parent}:$PATH"; '
# In cluster jobs, the training requeues its job on SIGTERM.
if workflow.remote_exec:
    STRICT += "export CADMUS_REQUEUE=1; "
shell.prefix(STRICT)


def memory(megabytes):
    """Return a resource function whose memory increases with each attempt."""
    return lambda wildcards, attempt: attempt * megabytes


def config_file(wildcards):
    """Return the path of the config with its defaults; write the file if jobs will run.

    Snakemake evaluates the params of a job before it starts the job. A rule cannot write the file, as Snakemake
    ignores changed params downstream of a job that will run, and a module has no `onstart`.
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
    """Return sections of the config as params, so that Snakemake reruns a job if they change."""
    values = RUN.model_dump()
    return {name: values[name] for name in names}


def code(*modules):
    """Return the source files of modules and of their imports, relative to the working directory."""
    return [os.path.relpath(path) for path in sources_of(*modules)]


def shard_code(wildcards):
    return code("cadmus.dataset.writer", f"cadmus.templates.{wildcards.template}")


def earlier_shards(wildcards):
    """Return the shards of the same template and split with lower numbers."""
    return [
        f"{DATASET}/{shard.path}"
        for shard in SHARDS
        if shard[:2] == (wildcards.template, wildcards.split)
        and shard.number < int(wildcards.number)
    ]


def experiment_input(wildcards):
    """Return the model or the snapshots, and the dataset if the experiment reads it."""
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
    """All cores of this machine, one experiment after another; on a cluster those that it declares."""
    plugin = workflow.executor_plugin
    local = plugin is None or plugin.name in ("local", "dryrun", "touch")
    cores = EXPERIMENTS[wildcards.experiment].cores
    return workflow.cores if local else min(workflow.cores, cores)


def experiment_settings(wildcards):
    """Return the settings that the results depend on."""
    shared = (
        {"split", "batch_size"} if EXPERIMENTS[wildcards.experiment].dataset else set()
    )
    return RUN.evaluate.model_dump(include={wildcards.experiment, *shared})


def figure_results(wildcards):
    """Return the result files of a figure."""
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
    """Return the cards of dataset and model, and all figures, tables and pages."""
    return [f"{DATASET}/{CARD}", f"{MODEL}/{CARD}"] + [
        f"{RESULTS}/{figure.kind}s/{figure.name}{suffix}"
        for figure in FIGURES.values()
        for suffix in experiments.FORMATS[figure.kind]
    ]
