# The output of a run: a line when a job starts, and the accuracies at its end. Snakemake's own paragraphs are in its log.
# A logger plugin of Snakemake would have to be an installed package of its own, named by a profile. A checkout and a module
# have none, and it would have to print Snakemake's errors itself.

import logging
from datetime import datetime

from snakemake.logging import LogEvent, logger

from cadmus.tables import plain

DROPPED = {
    LogEvent.WORKFLOW_STARTED,
    LogEvent.RUN_INFO,
    LogEvent.RESOURCES_INFO,
    LogEvent.JOB_INFO,
    LogEvent.JOB_STARTED,
    LogEvent.JOB_FINISHED,
    LogEvent.PROGRESS,
}
# Without an event of their own.
ROUTINE = ("Assuming", "Building DAG", "Conda env", "Rules claiming", "Select jobs", "Using shell")
INSTANT = ("all", "config", "study_config")  # rules whose jobs take no time
SHOWN = 6  # columns of the table of accuracies


class OneLinePerJob(logging.Filter):
    """Prints a line for each job that takes time, when it starts; drops what Snakemake says of jobs and of itself."""

    started, jobs = 0, 0

    def filter(self, record):
        event = getattr(record, "event", None)
        if event == LogEvent.RUN_INFO:
            self.jobs = record.stats["total"] - sum(record.stats.get(rule, 0) for rule in INSTANT)
        # Without jobs that run, Snakemake says all. This is not known yet while the rules are read.
        if workflow.executor_plugin is None or workflow.dryrun:
            return True
        if event == LogEvent.JOB_INFO and record.rule_name not in INSTANT:
            wildcards = dict(record.wildcards)
            run = RUNS.get(wildcards.pop("run", ""))
            of = [f"({run.variant}, seed {run.seed})"] if STUDY and run else []
            words = [record.rule_name.replace("_", " "), *wildcards.values(), *of]
            self.started += 1
            place = f"{self.started:{len(str(self.jobs))}}/{self.jobs}"
            print(f"{datetime.now():%H:%M:%S}  {place}  {' '.join(words)}", file=sys.stderr, flush=True)
        return event not in DROPPED and not str(record.msg).startswith(ROUTINE)


if not workflow.remote_exec and not workflow.output_settings.verbose:
    for handler in logger.handlers:
        if handler.name == "DefaultStreamHandler":
            handler.addFilter(OneLinePerJob())


def summary():
    """Return what a finished run has found, its files and the next command."""
    results = Path("results", RUN.name)
    accuracies, comparison = results / "tables/table3_accuracy.md", results / "README.md"
    # A run may have been asked for one file alone.
    if not (comparison if STUDY else accuracies).exists():
        return ""
    if STUDY:
        return f"The comparison is in {comparison}."
    header, _, *rows = (
        line.strip("| ").split(" | ")[:SHOWN] for line in accuracies.read_text().splitlines() if line
    )
    return (
        f"{plain(header, rows)}\n\n"
        f"Figures, tables, model and its card are in {results}/. Next: cadmus explore --model {results / 'model'}"
    )


onsuccess:
    print(f"\n{summary()}", file=sys.stderr)
