"""Publish the results of a run in ``docs/results`` and the README."""

import json
import shutil
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from cadmus.common.files import replacing_together
from cadmus.config import read_json, validate
from cadmus.config.fields import STRICT, Above0, PlainText, Positive, RunName, Tally
from cadmus.errors import InputError, reading

BEGIN, END = "<!-- results: written by `cadmus readme` -->", "<!-- /results -->"
SOLVED = (
    "*Solved* programs are true and answer the question; the gap is to the best baseline. "
    "[What counts as solved](docs/grading.md) defines both."
)
# Tables, in the order of the page of a run.
TABLES = ("table3_accuracy", "near_duplicates", "grid_regions", "accuracy_by_examples")
# Counts of a training that are published.
COUNTS = ("parameters", "steps", "programs", "tokens")
# Rows of the README: questions of Table 3, and what they ask.
SUMMARY = {
    "less_greater": "order two expressions",
    "advanced_sequences": "sort, filter, map and fold sequences",
    "complete_algorithm": "write a function from examples",
}
_FIX = "evaluate the model again"
# Figures of a run; each is published with the data drawn in it.
FIGURES = (
    "comparison_grid",
    "probe_final_block",
    "probe_layers",
    "accuracy_by_distance",
    "accuracy_by_length",
    "logit_lens",
    "patching",
    "pass_at_k",
)
# Files copied from a run.
FILES = (
    *(f"figures/{name}{suffix}" for name in FIGURES for suffix in (".png", ".csv")),
    *(f"tables/{name}{suffix}" for name in TABLES for suffix in (".csv", ".md")),
)
# Files that a run may lack: they need its training or a large language model. The data of the training curve
# have a row per step and are left out.
OPTIONAL = (
    *(
        f"figures/{name}{suffix}"
        for name in ("accuracy_by_compute", "output_tokens")
        for suffix in (".png", ".csv")
    ),
    "figures/training_curve.png",
)


class _Results(TypedDict):
    """Metadata of the results that are published."""

    __pydantic_config__ = STRICT  # type: ignore[misc]

    config_digest: PlainText
    model_digest: PlainText
    commit: PlainText


class _Training(TypedDict):
    """Published fields of the ``meta.json`` of a model."""

    __pydantic_config__ = STRICT  # type: ignore[misc]

    parameters: Positive
    steps: Positive
    programs: Positive
    tokens: Positive
    seconds: Above0
    cores: Positive


class _Published(TypedDict):
    """The file ``run.json``."""

    __pydantic_config__ = STRICT  # type: ignore[misc]

    name: RunName
    config_digest: PlainText
    model_digest: PlainText
    commit: PlainText
    parameters: Tally
    steps: Tally
    programs: Tally
    tokens: Tally
    training_seconds: float
    cores: Tally


def publish(results: Path, root: Path) -> list[Path]:
    """Copy the results of a finished run to ``docs/results`` and show them in the README.

    Args:
        results: The directory of the run, ``results/<name>``.
        root: The checkout.

    Returns:
        The files written.

    Raises:
        InputError: The run is not finished, its metadata are damaged, or the README is missing or has no
            place for results; nothing is written then.
    """
    # "." has no name, and a link may have another one.
    results, root = results.resolve(), root.resolve()
    needed = [*FILES, "model/meta.json", "experiments/completions.parquet"]
    missing = [name for name in needed if not (results / name).is_file()]
    if missing:
        raise InputError(f"{results}: the run is not finished, {missing[0]} is missing")
    target = root / "docs" / "results" / results.name
    found = [name for name in OPTIONAL if (results / name).is_file() and _measured(name, results)]
    copied = {target / Path(name).name: results / name for name in (*FILES, *found)}
    run = _provenance(results)
    readme = root / "README.md"
    with reading(readme, "name the checkout by --root"):
        text = readme.read_text(encoding="utf-8")
    for path in copied.values():
        if path.suffix != ".png":
            with reading(path, _FIX):
                path.read_text(encoding="utf-8")
    shown = _with_results(text, run, results / "tables", target, root)
    with replacing_together() as replaced:
        for path, source in copied.items():
            shutil.copyfile(source, replaced(path))
        replaced(target / "run.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
        replaced(readme).write_text(shown, encoding="utf-8")
    for name in set(OPTIONAL) - set(found):
        (target / Path(name).name).unlink(missing_ok=True)
    return [*copied, target / "run.json", readme]


def _measured(name: str, results: Path) -> bool:
    """Tell whether a figure shows more than reported numbers: output tokens need a large language model."""
    return "output_tokens" not in name or (results / "experiments/llm.parquet").is_file()


def with_results(text: str, published: Path, root: Path) -> str:
    """Return the text of the README with the results in ``published``.

    Raises:
        InputError: The text has no place for them, or what is published is damaged.
    """
    return _with_results(text, _read_published(published), published, published, root)


def _with_results(text: str, run: dict[str, Any], tables: Path, published: Path, root: Path) -> str:
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise InputError(f"README.md: needs one {BEGIN} and one {END}")
    before, rest = text.split(BEGIN)
    place = published.relative_to(root).as_posix()
    end = (
        f"[All questions and figures]({place}). [What counts as solved](docs/grading.md); "
        "the paper does not say what its accuracies count."
    )
    image = f"![Accuracy of the comparator for every pair of values]({place}/comparison_grid.png)"
    parts = [*_below(tables), _summary(tables), f"{_origin(run)} {end}", image, _grid(tables)]
    return "\n\n".join([before + BEGIN, *parts, END + rest.split(END)[1]])


def _below(tables: Path) -> list[str]:
    """Return the sentence on questions below the best baseline, if there are any."""
    import polars as pl

    from cadmus.figures import table3_accuracy

    path = tables / "table3_accuracy.csv"
    with reading(path, _FIX):
        sentence = table3_accuracy.below(pl.read_csv(path))
    return [sentence] if sentence else []


def _summary(tables: Path) -> str:
    """Return the rows of the README with their best baseline and the paper's accuracy."""
    import polars as pl

    from cadmus.evaluate.intervals import as_text, percent
    from cadmus.evaluate.results import best_baseline
    from cadmus.figures.tables import best_accuracy
    from cadmus.tables import markdown

    path = tables / "table3_accuracy.csv"
    with reading(path, _FIX):
        table = pl.read_csv(path)
    lines = []
    for question, title in SUMMARY.items():
        found = table.filter(question=question)
        models = found.filter(policy="model", metric="solved").to_dicts()
        best = best_baseline(found)
        if not models or best.is_empty():
            raise InputError(f"{path}: {question}: is missing; {_FIX}")
        (model,) = models
        accuracy = as_text(model["accuracy"], model["low"], model["high"])
        for fits in found.filter(policy="model", metric="fits")["accuracy"].drop_nulls():
            accuracy += f"; {percent(fits)} fit the examples"
        lines.append([title, accuracy, best_accuracy(best), percent(model["paper"])])
    return markdown(["Task", "Solved", "Best baseline", "Paper, 280M parameters"], lines).rstrip()


def _grid(tables: Path) -> str:
    """Return the text below the comparison grid."""
    import polars as pl

    from cadmus.evaluate.intervals import percent
    from cadmus.evaluate.regions import REGIONS

    path = tables / "grid_regions.csv"
    with reading(path, _FIX):
        regions = pl.read_csv(path).drop_nulls("accuracy").rows_by_key("region", named=True, unique=True)
    if "inside" not in regions:
        raise InputError(f"{path}: inside: is missing; {_FIX}")
    accuracies = (
        f"{percent(row['accuracy'])} ({percent(row['baseline'])}) {REGIONS[name]}"
        for name, row in regions.items()
        # Always answering `=` solves all of it, and nothing else outside.
        if name != "diagonal"
    )
    return (
        "Yellow is right; the dashed square is the training range. Right comparators, with the best baseline "
        f"in brackets: {'; '.join(accuracies)}."
    )


def results_page(published: Path, root: Path) -> str:
    """Return a Markdown page with all published results of a run; links start at the root of the checkout."""
    from cadmus.experiments import figures

    parts = [f"# The run {published.name}", _origin(_read_published(published)), *_below(published), SOLVED]
    for name in TABLES:
        parts += [figures()[name].caption, _table(name, published)]
    for name, figure in figures().items():
        if (published / f"{name}.png").is_file():
            title = name.replace("_", " ").capitalize()
            data = published / f"{name}.csv"
            link = f" [Data]({data.relative_to(root).as_posix()})." if data.is_file() else ""
            parts += [f"## {title}", _image(name, published, root), f"{figure.caption}{link}"]
    return "\n\n".join(parts) + "\n"


def _table(name: str, folder: Path) -> str:
    path = folder / f"{name}.md"
    with reading(path, _FIX):
        return path.read_text(encoding="utf-8").strip()


def _image(name: str, published: Path, root: Path) -> str:
    words = name.replace("_", " ")
    path = published.relative_to(root).as_posix()
    return f"![The {words} of the run {published.name}]({path}/{name}.png)"


def _read_published(published: Path) -> dict[str, Any]:
    return dict(read_json(published / "run.json", _Published, "publish the run again"))


def _origin(run: dict[str, Any]) -> str:
    """Return a sentence with the config, commit and size of a run."""
    minutes = run["training_seconds"] / 60
    return (
        f"Run `{run['name']}` ([config](config/{run['name']}.yaml), digest `{run['config_digest']}`, "
        f"commit `{run['commit'][:12]}`): {run['parameters']:,} parameters, "
        f"trained on {run['programs']:,} programs ({run['tokens']:,} tokens) "
        f"in {run['steps']:,} steps and {minutes:.1f} minutes on {run['cores']} CPU cores."
    )


def _provenance(results: Path) -> dict[str, Any]:
    import polars as pl

    model = read_json(results / "model/meta.json", _Training, "train the model again")
    path = results / "experiments/completions.parquet"
    with reading(path, _FIX):
        metadata = pl.read_parquet_metadata(path)
    noted = validate(metadata, _Results, str(path), _FIX)
    return {
        "name": results.name,
        **{key: value for key, value in noted.items() if key in _Results.__annotations__},
        **{key: value for key, value in model.items() if key in COUNTS},
        "training_seconds": round(model["seconds"], 1),
        "cores": model["cores"],
    }
