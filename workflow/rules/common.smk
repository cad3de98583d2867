# Shared by the rules: the validated config, paths, and input and params functions.

import functools
import os
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

# Import the package of this checkout. If the workflow is a remote module of another one, import the installed package.
sys.path.insert(0, str(Path(str(workflow.current_basedir)).parents[1]))

from snakemake.exceptions import WorkflowError

import cadmus
from cadmus import experiments
from cadmus.config import TEMPLATES, Config, as_yaml, extended, parse_config, read_yaml
from cadmus.config.study import parse_study
from cadmus.report import CROISSANT
from cadmus.report import FIGURES as DATASET_FIGURES
from cadmus.dataset.shards import plan
from cadmus.errors import InputError
from cadmus.common.files import replacing
from cadmus.docgen.hub import CARD
from cadmus.llm.models import MODELS
from cadmus.model import FILES as MODEL_FILES
from cadmus.study import files_of
from cadmus.tools import has_gpu, sources_of


def read_values():
    """Return the values of the config without defaults, and where they come from.

    Raises:
        InputError: a file is missing or not YAML, or there is no config to change.
    """
    paths = [Path(os.path.relpath(path)) for path in workflow.configfiles]
    if not paths and not {"extends", "dataset"} & config.keys():
        raise InputError(
            "--config: changes no config; add --configfile config/quick.yaml, or extends=quick"
        )
    # Unlike Snakemake, read_yaml rejects duplicate keys.
    for path in paths:
        read_yaml(path)
    # A copy, as `config` gets another key below.
    values = extended(dict(config), paths[-1] if paths else Path("config"))
    return values, ", ".join(map(str, paths)) or "config"


class Run(NamedTuple):
    """A config, and the directories of its dataset and training; all directories are in results/."""

    config: Config
    dataset: str
    training: str


def runs_of(study):
    """Return the runs of a study by the directories of their datasets, trainings and experiments."""
    found = {}
    for run in study.runs:
        for directory in (run.dataset, run.training, run.evaluation):
            named = run.config.model_copy(update={"name": Path(directory).name})
            found.setdefault(directory, Run(named, run.dataset, run.training))
    return found


ROOT = Path(cadmus.__file__).parents[1]
try:
    if {"{", "}"} & set(str(ROOT)):
        raise InputError(
            f"{ROOT}: Snakemake takes braces in the path of the checkout for wildcards; rename it"
        )
    VALUES, SOURCE = read_values()
    STUDY = parse_study(VALUES, SOURCE) if "study" in VALUES else None
    # Of a study, the first run: it decides the ranks of all trainings.
    RUN = STUDY.runs[0].config if STUDY else parse_config(VALUES, SOURCE)
except InputError as error:
    print(f"cadmus: error: {error}", file=sys.stderr)
    # Nothing is locked or running yet, so exiting at once is safe.
    os._exit(2)
STUDY_FILES = (
    files_of(STUDY.factors, STUDY.study.compare, bool(STUDY.study.law_flops))
    if STUDY
    else files_of([], [])
)
# By the directory of their results.
RUNS = runs_of(STUDY) if STUDY else {RUN.name: Run(RUN, RUN.name, RUN.name)}
FIGURES = experiments.figures()
# For the report.
config["resolved"] = as_yaml(dict(VALUES) if STUDY else RUN)
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


def memory(megabytes):
    """Return a resource function whose memory, a function of the wildcards, increases with each attempt."""
    return lambda wildcards, attempt: attempt * megabytes(wildcards)


def run_directory(wildcards, output):
    """Return the directory of a run, with the prefix that a module may have added to the paths of its rules."""
    directory = f"results/{wildcards.run}"
    prefix, _, _ = output[0].partition(f"{directory}/")
    return prefix + directory


def llm_directory(wildcards, output):
    return f"{run_directory(wildcards, output)}/llm"


def config_file(wildcards, output):
    """Return the path of the config of a run, beside its results; write the file if jobs will run.

    Snakemake evaluates the params of a job before it starts the job. A rule cannot write the file, as Snakemake
    ignores changed params downstream of a job that will run, and a module has no `onstart`.
    """
    path = Path(run_directory(wildcards, output), "config.yaml")
    return write_config(path, as_yaml(RUNS[wildcards.run].config))


def write_config(path, text):
    """Write a config unless it has this text already or no jobs will run; return its path."""
    starts_jobs = workflow.executor_plugin is not None and not workflow.dryrun
    if starts_jobs and not (path.is_file() and path.read_text() == text):
        try:
            with replacing(path) as temporary:
                temporary.write_text(text)
        except InputError as error:
            print(f"cadmus: error: {error}", file=sys.stderr)
            sys.exit(2)
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


def shard_files(wildcards):
    run = wildcards.run
    return [f"results/{run}/dataset/{shard.path}" for shard in shards(run)]


def code(*modules):
    """Return the source files of modules and of their imports, relative to the working directory."""
    return [os.path.relpath(path) for path in sources_of(*modules)]


def shard_code(wildcards):
    return code("cadmus.dataset.shards", f"cadmus.templates.{wildcards.template}")


def earlier_shards(wildcards):
    """Return the shards of the same template and split with lower numbers."""
    return [
        f"results/{wildcards.run}/dataset/{shard.path}"
        for shard in shards(wildcards.run)
        if shard[:2] == (wildcards.template, wildcards.split)
        and shard.number < int(wildcards.number)
    ]


def manifest(wildcards):
    return f"results/{RUNS[wildcards.run].dataset}/dataset/manifest.json"


def model(wildcards):
    trained = f"results/{RUNS[wildcards.run].training}"
    return [f"{trained}/model/{name}" for name in MODEL_FILES]


def metrics(wildcards):
    return f"results/{RUNS[wildcards.run].training}/training/metrics.jsonl"


def experiment_input(wildcards):
    """Return the model or the snapshots, and the dataset if the experiment reads it."""
    experiment = EXPERIMENTS[wildcards.experiment]
    found = (
        {"snapshots": f"results/{RUNS[wildcards.run].training}/training/snapshots"}
        if experiment.snapshots
        else {"model": model(wildcards)}
    )
    return found | ({"manifest": manifest(wildcards)} if experiment.dataset else {})


def experiment_code(wildcards):
    return code(f"cadmus.experiments.{wildcards.experiment}", "cadmus.model.inference")


def experiment_options(wildcards, input):
    experiment = EXPERIMENTS[wildcards.experiment]
    dataset = (
        f" --dataset {os.path.dirname(input.manifest)}" if experiment.dataset else ""
    )
    if experiment.snapshots:
        return f"--snapshots {input.snapshots}{dataset}"
    return f"--model {os.path.dirname(input.model[0])}{dataset}"


def training_cores():
    """Return the cores of a training on this machine: a study runs as many at once as possible.

    A GPU serves one job at a time.
    """
    trainings = {run.training for run in RUNS.values()}
    at_once = 1 if has_gpu() else len(trainings)
    return max(1, workflow.cores // at_once)


def experiment_cores(wildcards):
    """Return the cores of an experiment: those of a training, or on a cluster those that it declares."""
    plugin = workflow.executor_plugin
    if plugin is None or plugin.name in ("local", "dryrun", "touch"):
        return training_cores()
    return min(workflow.cores, EXPERIMENTS[wildcards.experiment].cores)


def experiment_settings(wildcards):
    """Return the settings that the results depend on."""
    shared = (
        {"split", "batch_size"} if EXPERIMENTS[wildcards.experiment].dataset else set()
    )
    evaluate = RUNS[wildcards.run].config.evaluate
    return evaluate.model_dump(include={wildcards.experiment, *shared})


def figure_results(wildcards):
    """Return the result files of a figure."""
    return [
        (
            metrics(wildcards)
            if source == "metrics"
            else f"results/{wildcards.run}/experiments/{source}.parquet"
        )
        for source in FIGURES[wildcards.figure].sources
        if source != "llm" or RUNS[wildcards.run].config.llm.models
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


def study_results(wildcards):
    """Return the metrics of each training and the results of each experiment."""
    trainings = [f"results/{run.training}/training/metrics.jsonl" for run in STUDY.runs]
    return trainings + [
        f"results/{run.evaluation}/experiments/{experiment}.parquet"
        for run in STUDY.runs
        for experiment in STUDY.study.experiments
    ]


def study_file(wildcards, output):
    return write_config(Path(output[0]).with_name("config.yaml"), as_yaml(VALUES))


def check_study():
    """Check that there is enough disk.

    Raises:
        WorkflowError: there is not; no job has started.
    """
    # It imports numba, which `snakemake --lint` of a bare clone does not have.
    from cadmus.planning.study import check_disk

    try:
        check_disk(STUDY, Path("results"))
    except InputError as error:
        raise WorkflowError(str(error)) from None


def draw_finished():
    """Describe the finished runs of a study, and why the others failed.

    Not in the files of the finished study: Snakemake would not run the missing jobs again.
    """
    study = Path("results", STUDY.name, "config.yaml")
    write_config(study, as_yaml(VALUES))
    partial = study.with_name("partial")
    shell(
        "python -m cadmus study collect {study} --output {partial}/study.parquet"
        " && python -m cadmus study draw {partial}/study.parquet --output {partial} > /dev/null"
        " && echo 'cadmus: the finished runs are in {partial}/study.html' >&2"
    )


def targets():
    """Return the files of a study, or the cards of dataset and model and all figures, tables and pages of a run."""
    results = f"results/{RUN.name}"
    if STUDY:
        return [f"{results}/{file}" for file in STUDY_FILES]
    return [f"{results}/dataset/{CARD}", f"{results}/model/{CARD}"] + [
        f"{results}/{figure.kind}s/{figure.name}{suffix}"
        for figure in FIGURES.values()
        for suffix in experiments.FORMATS[figure.kind]
    ]
