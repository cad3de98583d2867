# Shared by the rules: the validated config, and functions of wildcards.

import fcntl
import functools
import hashlib
import os
import shlex
import sys
from pathlib import Path

# Import the package of this checkout. If the workflow is a remote module of another one, import the installed package.
sys.path.insert(0, str(Path(str(workflow.current_basedir)).parents[1]))

from snakemake.exceptions import WorkflowError

import cadmus
from cadmus import experiments
from cadmus.config import TEMPLATES, parse_config, read_changes, read_yaml
from cadmus.config.loading import as_yaml, changed, extended, is_same_config
from cadmus.config.study import Run, parse_study
from cadmus.dataset.shards import list_shards
from cadmus.errors import InputError, suggest
from cadmus.model import CARD, FILES as MODEL_FILES, WEIGHTS
from cadmus.plan import training_memory
from cadmus.plugins import module_of
from cadmus.store import write_text
from cadmus.study import FILES
from cadmus.tools import has_gpu, sources_of

ROOT = Path(cadmus.__file__).parents[1]
PATHS = [Path(os.path.relpath(path)) for path in workflow.configfiles]
FIGURES = experiments.figures()
SOURCE = ", ".join(map(str, PATHS)) or "config"


def refuse(problem):
    """End in one line. Snakemake would print three for a WorkflowError, ours between two with places in this file."""
    print(f"cadmus: error: {problem}", file=sys.stderr)
    sys.exit(2)


def read_config():
    """Return the values of the config without defaults, and the study that it describes, if it does."""
    if {"{", "}"} & set(str(ROOT)):
        raise InputError(f"{ROOT}: Snakemake takes braces in a path for wildcards; rename the checkout")
    if not PATHS and not {"extends", "dataset"} & config.keys():
        raise InputError("--config: changes no config; add --configfile config/quick.yaml, or extends=quick")
    for path in PATHS:
        # Unlike Snakemake, it rejects duplicate keys.
        read_yaml(path)
    given = read_changes(str(config.pop("set", "")).split())
    # A copy, as `config` gets another key below.
    values = changed(extended(dict(config), PATHS[-1] if PATHS else Path("config")), given)
    # Snakemake would say that no rule produces it.
    for target in map(Path, sys.argv[1:]):
        if target.parent.name in {f"{kind}s" for kind in experiments.FORMATS} and target.stem not in FIGURES:
            raise InputError(f"{target}: no such {target.parent.name[:-1]}; {suggest(target.stem, FIGURES)}")
    return values, parse_study(values, SOURCE) if "study" in values else None


def runs_by_directory(runs):
    """Return runs by the directories of their datasets, trainings and experiments in results/, named like these."""
    found = {}
    for run in runs:
        for directory in (run.dataset, run.training, run.evaluation):
            named = run.config.model_copy(update={"name": Path(directory).name})
            found.setdefault(directory, run._replace(config=named))
    return found


try:
    VALUES, STUDY = read_config()
    # Of a study, the first run: it decides the ranks of all trainings.
    RUN = STUDY.runs[0].config if STUDY else parse_config(VALUES, SOURCE)
except InputError as error:
    refuse(error)
ONE = Run(variant="", seed=0, config=RUN, dataset=RUN.name, training=RUN.name, evaluation=RUN.name)
RUNS = runs_by_directory(STUDY.runs if STUDY else [ONE])
# `snakemake --rulegraph` has no --cores; what runs jobs asks for it.
ALL_CORES = workflow.resource_settings.cores or os.cpu_count()
# Cores of a training on this machine: a study runs as many at once as possible, but a GPU serves one job at a time.
CORES = max(1, ALL_CORES // (1 if has_gpu() else len({run.training for run in RUNS.values()})))
EXPERIMENTS = {name: experiments.get(name) for name in experiments.NAMES}
# Sections of the config by the steps that depend on them, see rules/config.smk. Shards have no name of the run, so that
# runs with equal datasets can share them. An experiment depends on its own section.
SECTIONS = {"shard": {"seed", "dataset"}, "manifest": {"name", "seed", "dataset"}}
SECTIONS["train"] = SECTIONS["manifest"] | {"model", "train"}
SECTIONS["baselines"] = {"seed", "dataset"}
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


def step_config(wildcards):
    """Return the config of a step as YAML: the sections that it depends on."""
    run, experiment = RUNS[wildcards.run].config, EXPERIMENTS.get(wildcards.step)
    values = run.model_dump(include=SECTIONS.get(wildcards.step, {"seed", "dataset", "model", "train"}))
    if experiment:
        others = set(EXPERIMENTS) - {wildcards.step} | (set() if experiment.dataset else {"split"})
        values["evaluate"] = run.evaluate.model_dump(exclude=others)
    elif wildcards.step == "baselines":
        values["evaluate"] = run.evaluate.model_dump(include={"completions", "split"})
    # A config needs a model and a training, also for steps that read neither.
    unread = {} if "train" in values else {"extends": "quick"}
    text = as_yaml({**unread, "name": wildcards.step, **values})
    # One that says the same stays, as Cadmus may have got another template or field since: then nothing runs again.
    path = Path(f"results/{wildcards.run}/configs/{wildcards.step}.yaml")
    return path.read_text() if is_same_config(path, text) else text


@functools.cache
def shards(run):
    """Return the shards of the dataset of a run."""
    return list_shards(RUNS[run].config)


def programs(run, split=None):
    """Return the number of programs of the dataset of a run, or of one of its splits."""
    return sum(shard.rows for shard in shards(run) if split in (None, shard.split))


@functools.cache
def code(*modules):
    """Return a digest of the source files of modules and of their imports, so that Snakemake reruns a job after an edit."""
    sources = hashlib.sha256()
    for path in sources_of(*modules):
        sources.update(hashlib.sha256(path.read_bytes()).digest())
    # Snakemake prints it as a reason to run a job.
    return f"code {sources.hexdigest()[:16]}"


def manifest(wildcards):
    return f"results/{RUNS[wildcards.run].dataset}/dataset/manifest.json"


def model(wildcards):
    return [f"results/{RUNS[wildcards.run].training}/model/{name}" for name in MODEL_FILES]


def metrics(wildcards):
    return f"results/{RUNS[wildcards.run].training}/training/metrics.jsonl"


def initial_weights(wildcards):
    """Return the weights that a training starts from, if it does not start from random ones."""
    directory = RUNS[wildcards.run].config.train.init
    if directory is None:
        return []
    if not (weights := Path(directory, WEIGHTS)).is_file():
        # Snakemake would say that no rule produces it.
        refuse(f"train.init: {directory}: no model there; train it first")
    return str(weights)


def baselines(wildcards):
    """Return the baselines of the dataset of a run, unless other programs of it are asked here."""
    run = RUNS[wildcards.run]
    asked = [each.config.evaluate for each in (run, RUNS[run.dataset])]
    same = asked[0].completions == asked[1].completions and asked[0].split == asked[1].split
    return {"baselines": f"results/{run.dataset}/experiments/baselines.parquet"} if same else {}


def experiment_input(wildcards):
    """Return the model or the snapshots, and the dataset and baselines if the experiment reads them."""
    experiment, training = EXPERIMENTS[wildcards.experiment], RUNS[wildcards.run].training
    snapshots = {"snapshots": f"results/{training}/training/snapshots"}
    found = snapshots if experiment.snapshots else {"model": model(wildcards)}
    found |= {"manifest": manifest(wildcards)} if experiment.dataset else {}
    return found | (baselines(wildcards) if experiment.baselines else {})


def experiment_options(wildcards, input):
    experiment = EXPERIMENTS[wildcards.experiment]
    subject = input.snapshots if experiment.snapshots else os.path.dirname(input.model[0])
    options = f"--{'snapshots' if experiment.snapshots else 'model'} {subject}"
    options += f" --dataset {os.path.dirname(input.manifest)}" if experiment.dataset else ""
    return options + (f" --baselines {input.baselines}" if "baselines" in input.keys() else "")


def results_of(sources, wildcards):
    """Return the result files of figures."""
    files = {source: f"results/{wildcards.run}/experiments/{source}.parquet" for source in sources}
    return [metrics(wildcards) if source == "metrics" else file for source, file in files.items()]


def files_of(figure):
    """Return the outputs of a figure or table."""
    kind = figure.kind
    return [f"results/{{run}}/{kind}s/{figure.name}{suffix}" for suffix in experiments.FORMATS[kind]]


def targets():
    """Return the files of a study, or the card of the model and all figures and tables of a run."""
    drawn = [
        f"{figure.kind}s/{figure.name}{suffix}"
        for figure in FIGURES.values()
        if all(EXPERIMENTS[source].asks(RUN.model) for source in figure.sources if source in EXPERIMENTS)
        for suffix in experiments.FORMATS[figure.kind]
    ]
    files = FILES if STUDY else [f"model/{CARD}", *drawn]
    return [f"results/{RUN.name}/{file}" for file in files]
