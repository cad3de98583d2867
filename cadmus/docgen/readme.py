"""Publish the results of a run in ``docs/results`` and the README."""

import json
import shutil
from pathlib import Path
from typing import Any

from cadmus.common.files import replacing
from cadmus.errors import InputError

BEGIN, END = "<!-- results: written by `cadmus readme` -->", "<!-- /results -->"
SOLVED = (
    "*Solved* programs are true and answer the question; the gap is to the best of four trivial baselines. "
    "[What counts as solved](docs/grading.md) defines both."
)
# Tables, in the order of the page of a run.
TABLES = ("table3_accuracy", "near_duplicates", "grid_regions", "accuracy_by_examples")
# Files copied from a run.
FILES = (
    "figures/comparison_grid.png",
    "figures/comparison_grid.csv",
    "figures/probe_final_block.png",
    "figures/probe_layers.png",
    "figures/accuracy_by_distance.png",
    "figures/accuracy_by_length.png",
    "figures/logit_lens.png",
    "figures/patching.png",
    *(f"tables/{name}{suffix}" for name in TABLES for suffix in (".csv", ".md")),
)
# Files that a run may lack: they need its training or a large language model, or are newer than the run.
OPTIONAL = (
    "figures/accuracy_by_compute.png",
    "figures/training_curve.png",
    "figures/output_tokens.png",
    "figures/pass_at_k.png",
)


def publish(results: Path, root: Path) -> list[Path]:
    """Copy the results of a finished run to ``docs/results`` and show them in the README.

    Args:
        results: The directory of the run, ``results/<name>``.
        root: The checkout.

    Returns:
        The files written.

    Raises:
        InputError: The run is not finished, or the README has no place for results.
    """
    needed = [*FILES, "model/meta.json", "experiments/completions.parquet"]
    missing = [name for name in needed if not (results / name).is_file()]
    if missing:
        raise InputError(f"{results}: the run is not finished, {missing[0]} is missing")
    target = root / "docs" / "results" / results.name
    target.mkdir(parents=True, exist_ok=True)
    found = [name for name in OPTIONAL if (results / name).is_file() and _measured(name, results)]
    for name in set(OPTIONAL) - set(found):
        (target / Path(name).name).unlink(missing_ok=True)
    written = [Path(shutil.copyfile(results / name, target / Path(name).name)) for name in (*FILES, *found)]
    _write(target / "run.json", json.dumps(_provenance(results), indent=1) + "\n")
    readme = root / "README.md"
    _write(readme, with_results(readme.read_text(encoding="utf-8"), target, root))
    return [*written, target / "run.json", readme]


def _measured(name: str, results: Path) -> bool:
    """Tell whether a figure shows more than reported numbers: output tokens need a large language model."""
    return "output_tokens" not in name or (results / "experiments/llm.parquet").is_file()


def with_results(text: str, published: Path, root: Path) -> str:
    """Return the text of the README with the results in ``published``.

    Raises:
        InputError: The text has no place for them.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise InputError(f"README.md: needs one {BEGIN} and one {END}")
    before, rest = text.split(BEGIN)
    place = published.relative_to(root).as_posix()
    parts = [
        before + BEGIN,
        _image("comparison_grid", published, root),
        _table("grid_regions", published),
        _table("table3_accuracy", published),
        SOLVED,
        f"{_origin(published)} More figures of this run are in [{place}]({place}).",
        END + rest.split(END)[1],
    ]
    return "\n\n".join(parts)


def results_page(published: Path, root: Path) -> str:
    """Return a Markdown page with all published results of a run; links start at the root of the checkout."""
    from cadmus.experiments import figures

    parts = [f"# The run {published.name}", _origin(published), SOLVED]
    for name in TABLES:
        parts += [figures()[name].caption, _table(name, published)]
    for name, figure in figures().items():
        if (published / f"{name}.png").is_file():
            title = name.replace("_", " ").capitalize()
            parts += [f"## {title}", _image(name, published, root), figure.caption]
    return "\n\n".join(parts) + "\n"


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _table(name: str, published: Path) -> str:
    return (published / f"{name}.md").read_text(encoding="utf-8").strip()


def _image(name: str, published: Path, root: Path) -> str:
    words = name.replace("_", " ")
    path = published.relative_to(root).as_posix()
    return f"![The {words} of the run {published.name}]({path}/{name}.png)"


def _origin(published: Path) -> str:
    """Return a sentence with the config, commit and size of a run."""
    run = json.loads((published / "run.json").read_text(encoding="utf-8"))
    minutes = run["training_seconds"] / 60
    return (
        f"Run `{run['name']}` ([config](config/{run['name']}.yaml), digest `{run['config_digest']}`, "
        f"commit `{run['commit'][:12]}`): {run['parameters']:,} parameters, "
        f"trained on {run['programs']:,} programs ({run['tokens']:,} tokens) "
        f"in {run['steps']:,} steps and {minutes:.1f} minutes on {run['cores']} CPU cores."
    )


def _provenance(results: Path) -> dict[str, Any]:
    import polars as pl

    model = json.loads((results / "model/meta.json").read_text(encoding="utf-8"))
    noted = pl.read_parquet_metadata(results / "experiments/completions.parquet")
    return {
        "name": results.name,
        **{key: noted[key] for key in ("config_digest", "model_digest", "commit")},
        **{key: model[key] for key in ("parameters", "steps", "programs", "tokens")},
        "training_seconds": round(model["seconds"], 1),
        "cores": model["cores"],
    }
