"""The published results of a run: its files in ``docs/models``, their page, and the README."""

import json
import shutil
from pathlib import Path

import polars as pl

from cadmus import store
from cadmus.evaluate.statistics.intervals import percent
from cadmus.experiments import figures, table
from cadmus.figures import table3_accuracy
from cadmus.model.export import Trained, read_metadata_as
from cadmus.store import read_results
from dev.docs import with_generated
from dev.measure import Facts

SOLVED = (
    "*Solved* programs are true and answer the question; the gap is to the best baseline. "
    "[Grading](../../grading.md) defines both."
)
TABLES = ("table3_accuracy", "grid_regions", "loss_by_template")
"""In the order of the page of a run, which has them whole."""
SPECIAL = (
    *("accuracy_by_compute", "accuracy_by_question", "interchange"),
    *("memory", "training_curve"),
)
FIGURES = [name for name, figure in figures().items() if figure.kind == "figure" and name not in SPECIAL]
FILES = (
    *(f"figures/{name}.png" for name in FIGURES),
    *(f"figures/{name}.csv" for name in FIGURES if name != "probe_final_block"),
    *(f"tables/{name}.csv" for name in ("table3_accuracy", "grid_regions")),
)
# The data of the training curve have a row per step; those of accuracy_by_question are those of Table 3.
# probe_layers has those of probe_final_block.
OPTIONAL = [f"figures/{name}.png" for name in SPECIAL]
OPTIONAL += [f"figures/{name}.csv" for name in ("accuracy_by_compute", "interchange", "memory")]
"""Files that a run may lack."""
LARGE = ("comparison_grid",)
"""Figures whose data are published as Parquet, which takes a tenth of the space of CSV."""
FIRST = "flagship"  # the run that the README shows
SHOWN = ("inside", "one_out", "same_side")
"""Regions of the grid that the README names."""


def publish(results: Path, root: Path) -> None:
    """Copy the results of a finished run to ``docs/models``, and update the README."""
    results = results.resolve()
    if missing := [name for name in FILES if not (results / name).is_file()]:
        raise SystemExit(f"{results}: the run is not finished, {missing[0]} is missing")
    target = root / "docs/models" / results.name
    target.mkdir(parents=True, exist_ok=True)
    for name in (*FILES, *OPTIONAL):
        copy = target / Path(name).name
        copy.unlink(missing_ok=True)
        if copy.stem in LARGE and copy.suffix == ".csv":
            pl.read_csv(results / name).write_parquet(copy.with_suffix(".parquet"))
        elif (results / name).is_file():
            shutil.copyfile(results / name, copy)
    store.write_text(target / "run.json", json.dumps(_provenance(results), indent=1) + "\n")
    store.write_text(target / "README.md", results_page(target, results / "tables"))
    store.write_text(root / "README.md", with_results(root))


def _provenance(results: Path) -> Facts:
    model = read_metadata_as(Trained, results / "model")
    _, noted = read_results(results / "experiments/completions.parquet", table("completions"))
    return {
        "name": results.name,
        **noted.model_dump(include={"config_digest", "model_digest"}),
        "commit": noted.cadmus and noted.cadmus.commit,
        **model.model_dump(include={"parameters", "steps", "programs", "tokens"}),
        "training_seconds": round(model.seconds, 1),
        "cores": model.cores,
        "device": model.device,
        "init": model.config.train.init,
    }


def with_results(root: Path) -> str:
    """Return the text of the README with the published results of its run."""
    place = f"docs/models/{FIRST}"
    questions = (
        f"![Accuracy on each question, between baseline and best possible]({place}/accuracy_by_question.png)"
    )
    grid = f"![Accuracy of the comparator for every pair of values]({place}/comparison_grid.png)"
    below = table3_accuracy.below(pl.read_csv(root / place / "table3_accuracy.csv"))
    parts = [questions, below, grid, _grid(root / place)]
    return with_generated(root / "README.md", "\n\n".join(filter(None, parts)))


def _grid(published: Path) -> str:
    """Return the sentence below the comparison grid."""
    rows = {row["region"]: row for row in pl.read_csv(published / "grid_regions.csv").to_dicts()}
    inside, one_out, same_side = (rows[name] for name in SHOWN)
    return (
        "Yellow is right; the dashed square is what the model compares in training. Inside, it gets "
        f"{percent(inside['accuracy'])} right (the best baseline {percent(inside['baseline'])}), with one "
        f"number outside {percent(one_out['accuracy'])} ({percent(one_out['baseline'])}), with two beyond "
        f"the same end {percent(same_side['accuracy'])} ({percent(same_side['baseline'])})."
    )


def results_page(published: Path, tables: Path) -> str:
    """Return a Markdown page with all published results of a run and its tables, for their directory."""
    below = table3_accuracy.below(pl.read_csv(published / "table3_accuracy.csv"))
    parts = [f"# Results of `{published.name}`", _origin(published), *filter(None, [below]), SOLVED]
    for name in TABLES:
        parts += [figures()[name].caption, (tables / f"{name}.md").read_text(encoding="utf-8").strip()]
    for name, figure in figures().items():
        if (published / f"{name}.png").is_file():
            words = name.replace("_", " ")
            image = f"![{words.capitalize()} of {published.name}]({name}.png)"
            title, data = ("Data as Parquet", f"{name}.parquet") if name in LARGE else ("Data", f"{name}.csv")
            link = f" [{title}]({data})." if (published / data).is_file() else ""
            parts += [f"## {words.capitalize()}", image, f"{figure.caption}{link}"]
    return "\n\n".join(parts) + "\n"


def _origin(published: Path) -> str:
    """Return a sentence with the config, commit and size of a run."""
    run = json.loads((published / "run.json").read_text(encoding="utf-8"))
    start = f", from `{run['init']}`" if run.get("init") else ""
    device = f"{run['cores']} CPU cores" if run["device"] == "cpu" else f"one {run['device']}"
    return (
        f"Run `{run['name']}` ([config](../../../config/{run['name']}.yaml), digest "
        f"`{run['config_digest']}`, commit `{run['commit'][:12]}`): {run['parameters']:,} parameters, "
        f"{run['programs']:,} programs ({run['tokens']:,} tokens) in {run['steps']:,} steps and "
        f"{run['training_seconds'] / 60:.1f} minutes of training on {device}{start}."
    )
