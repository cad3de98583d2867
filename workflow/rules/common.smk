# Shared by the rules: the validated config, and functions of wildcards.

import functools
import os
import shlex
import sys
from pathlib import Path

# Import the package of this checkout. If the workflow is a remote module of another one, import the installed package.
sys.path.insert(0, str(Path(str(workflow.current_basedir)).parents[1]))

from snakemake.exceptions import WorkflowError

import cadmus
from cadmus import experiments
from cadmus.config import ATTENTION, OWN_MIXERS, TEMPLATES, parse_config, read_changes, read_yaml
from cadmus.config.loading import as_yaml, changed, extended
from cadmus.config.study import Run, parse_study
from cadmus.dataset.shards import plan
from cadmus.errors import InputError, suggest
from cadmus.llm.models import MODELS, read_models
from cadmus.model import CARD
from cadmus.model import FILES as MODEL_FILES
from cadmus.plan import training_memory
from cadmus.store import write_text
from cadmus.tools import has_gpu, sources_of

ROOT = Path(cadmus.__file__).parents[1]
PATHS = [Path(os.path.relpath(path)) for path in workflow.configfiles]
FIGURES = experiments.figures()
SOURCE = ", ".join(map(str, PATHS)) or "config"
try:
    if {"{", "}"} & set(str(ROOT)):
        raise InputError(f"{ROOT}: Snakemake takes braces in a path for wildcards; rename the checkout")
    if not PATHS and not {"extends", "dataset"} & config.keys():
        raise InputError("--config: changes no config; add --configfile config/quick.yaml, or extends=quick")
    # Unlike Snakemake, read_yaml rejects duplicate keys.
    list(map(read_yaml, PATHS))
    # Without defaults. A copy, as `config` gets another key below.
    given = read_changes(str(config.pop("set", "")).split())
    VALUES = changed(extended(dict(config), PATHS[-1] if PATHS else Path("config")), given)
    STUDY = parse_study(VALUES, SOURCE) if "study" in VALUES else None
    # Of a study, the first run: it decides the ranks of all trainings.
    RUN = STUDY.runs[0].config if STUDY else parse_config(VALUES, SOURCE)
    # Snakemake would say that no rule produces it.
    for target in map(Path, sys.argv[1:]):
        if target.parent.name in {f"{kind}s" for kind in experiments.FORMATS} and target.stem not in FIGURES:
            raise InputError(f"{target}: no such {target.parent.name[:-1]}; {suggest(target.stem, FIGURES)}")
except InputError as error:
    # Snakemake would print a WorkflowError in three lines, ours between two with places in this file.
    print(f"cadmus: error: {error}", file=sys.stderr)
    sys.exit(2)
# By the directories of their datasets, trainings and experiments in results/.
RUNS = {}
for each in STUDY.runs if STUDY else [Run("", 0, RUN, RUN.name, RUN.name, RUN.name)]:
    for place in (each.dataset, each.training, each.evaluation):
        named = each.config.model_copy(update={"name": Path(place).name})
        RUNS.setdefault(place, each._replace(config=named))
# `snakemake --rulegraph` has no --cores; what runs jobs asks for it.
ALL_CORES = workflow.resource_settings.cores or os.cpu_count()
# Cores of a training on this machine: a study runs as many at once as possible, but a GPU serves one job at a time.
CORES = max(1, ALL_CORES // (1 if has_gpu() else len({run.training for run in RUNS.values()})))
EXPERIMENTS = {name: experiments.get(name) for name in experiments.NAMES}
# For the report.
config["resolved"] = as_yaml(dict(VALUES) if STUDY else RUN.model_dump())
# Jobs use this package, and the Python of Snakemake unless --sdm provides another. This prefix replaces Snakemake's
# own, so it must set strict mode.
STRICT = f"set -euo pipefail; export PYTHONPATH={shlex.quote(str(ROOT))}; "
if not workflow.deployment_settings.deployment_method:
    STRICT += f'export PATH={shlex.quote(str(Path(sys.executable).parent))}:"$PATH"; '
# In cluster jobs, the training requeues its job on SIGTERM.
if workflow.remote_exec:
    STRICT += "export CADMUS_REQUEUE=1; "
# As a variable: Snakemake would format braces in the paths.
shell.prefix("{STRICT}")


wildcard_constraints:
    run="|".join(RUNS),


def config_file(wildcards, output):
    """Return the path of the config of a run, next to its results; write the file if jobs will run.

    Snakemake evaluates the params of a job before it starts the job. With a rule for the file, it would not look for
    changed code and params in the jobs downstream, and a module has no `onstart`.
    """
    directory = f"results/{wildcards.run}"
    # A module may have added a prefix to the paths of its rules.
    prefix = output[0].partition(f"{directory}/")[0]
    return write_config(Path(prefix, directory, "config.yaml"), RUNS[wildcards.run].config.model_dump())


def starts_jobs():
    """Return True if jobs will run; it is not known yet while the rules are read."""
    return workflow.executor_plugin is not None and not workflow.dryrun


def write_config(path, values):
    """Write a config unless the file is current or no jobs will run; return its path."""
    text = as_yaml(values)
    if starts_jobs() and not (path.is_file() and path.read_text() == text):
        write_text(path, text)
    return str(path)


def section(*names):
    """Return a params function of sections of the config, so that Snakemake reruns a job if they change."""
    return lambda wildcards: RUNS[wildcards.run].config.model_dump(include=set(names))


@functools.cache
def shards(run):
    """Return the shards of the dataset of a run."""
    return plan(RUNS[run].config)


def programs(run, split=None):
    """Return the number of programs of the dataset of a run, or of one of its splits."""
    return sum(shard.rows for shard in shards(run) if split in (None, shard.split))


def code(*modules):
    """Return the source files of modules and of their imports, relative to the working directory."""
    return [os.path.relpath(path) for path in sources_of(*modules)]


def manifest(wildcards):
    return f"results/{RUNS[wildcards.run].dataset}/dataset/manifest.json"


def model(wildcards):
    return [f"results/{RUNS[wildcards.run].training}/model/{name}" for name in MODEL_FILES]


def metrics(wildcards):
    return f"results/{RUNS[wildcards.run].training}/training/metrics.jsonl"


def earlier_shards(wildcards):
    """Return the shards of the same template and split with lower numbers."""
    return [
        f"results/{wildcards.run}/dataset/{shard.path}"
        for shard in shards(wildcards.run)
        if shard[:2] == (wildcards.template, wildcards.split) and shard.number < int(wildcards.number)
    ]


def experiment_input(wildcards):
    """Return the model or the snapshots, and the dataset if the experiment reads it."""
    experiment, training = EXPERIMENTS[wildcards.experiment], RUNS[wildcards.run].training
    snapshots = {"snapshots": f"results/{training}/training/snapshots"}
    found = snapshots if experiment.snapshots else {"model": model(wildcards)}
    return found | ({"manifest": manifest(wildcards)} if experiment.dataset else {})


def experiment_options(wildcards, input):
    experiment = EXPERIMENTS[wildcards.experiment]
    subject = input.snapshots if experiment.snapshots else os.path.dirname(input.model[0])
    options = f"--{'snapshots' if experiment.snapshots else 'model'} {subject}"
    mixer = RUNS[wildcards.run].config.model.mixer
    if mixer not in (ATTENTION, *OWN_MIXERS):
        options += f" --mixer {mixer}"
    return options + (f" --dataset {os.path.dirname(input.manifest)}" if experiment.dataset else "")


def experiment_settings(wildcards):
    """Return the settings that the results depend on."""
    shared = {"split", "batch_size"} if EXPERIMENTS[wildcards.experiment].dataset else set()
    return RUNS[wildcards.run].config.evaluate.model_dump(include={wildcards.experiment, *shared})


def results_of(sources, wildcards):
    """Return the result files of figures."""
    files = {source: f"results/{wildcards.run}/experiments/{source}.parquet" for source in sources}
    return [metrics(wildcards) if source == "metrics" else file for source, file in files.items()]


def files_of(figure):
    """Return the outputs of a figure, table or page; the report shows one of them."""
    kind, suffixes = figure.kind, experiments.FORMATS[figure.kind]
    files = {suffix: f"results/{{run}}/{kind}s/{figure.name}{suffix}" for suffix in suffixes}
    look = {"caption": "../captions/result.rst", "labels": {kind: figure.name}}
    shown = ".png" if kind == "figure" else suffixes[0]
    files[shown] = report(files[shown], category=f"{kind}s".capitalize(), **look)
    return list(files.values())


def targets():
    """Return the files of a study, or the cards of dataset and model and all figures, tables and pages of a run."""
    drawn = [
        f"{figure.kind}s/{figure.name}{suffix}"
        for figure in FIGURES.values()
        for suffix in experiments.FORMATS[figure.kind]
    ]
    files = STUDY_FILES if STUDY else [f"dataset/{CARD}", f"model/{CARD}", *drawn]
    return [f"results/{RUN.name}/{file}" for file in files]
