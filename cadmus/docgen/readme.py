"""The results that the README shows: copied from a run, with where they come from."""

import json
import shutil
from pathlib import Path
from typing import Any

from cadmus.common.files import replacing
from cadmus.errors import InputError

BEGIN, END = "<!-- results: written by `cadmus readme` -->", "<!-- /results -->"
FILES = (
    "figures/comparison_grid.png",
    "figures/comparison_grid.csv",
    "figures/probe_final_block.png",
    "figures/probe_layers.png",
    "figures/output_tokens.png",
    "figures/accuracy_by_distance.png",
    "figures/accuracy_by_compute.png",
    "figures/accuracy_by_length.png",
    "figures/accuracy_by_examples.png",
    "figures/logit_lens.png",
    "figures/patching.png",
    "figures/training_curve.png",
    "tables/table3_accuracy.csv",
    "tables/table3_accuracy.md",
)
"""What is copied of a run."""


def publish(results: Path, root: Path) -> list[Path]:
    """Copy the results of a finished run to ``docs/results`` and show them in the README.

    Args:
        results: the folder of the run, ``results/<name>``.
        root: the checkout.

    Returns:
        The files written.

    Raises:
        InputError: the run is not finished, or the README has no place for results.
    """
    needed = [*FILES, "model/meta.json", "experiments/completions.parquet"]
    missing = [name for name in needed if not (results / name).is_file()]
    if missing:
        raise InputError(f"{results}: the run is not finished, {missing[0]} is missing")
    target = root / "docs" / "results" / results.name
    target.mkdir(parents=True, exist_ok=True)
    written = [Path(shutil.copyfile(results / name, target / Path(name).name)) for name in FILES]
    written.append(target / "run.json")
    with replacing(written[-1]) as temporary:
        temporary.write_text(json.dumps(_provenance(results), indent=1) + "\n", encoding="utf-8")
    readme = root / "README.md"
    text = with_results(readme.read_text(encoding="utf-8"), target, root)
    with replacing(readme) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return [*written, readme]


def with_results(text: str, published: Path, root: Path) -> str:
    """The text of the README with the results that lie in ``published``.

    Raises:
        InputError: the text has no place for them.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise InputError(f"README.md: needs one {BEGIN} and one {END}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{render(published, root)}\n{END}{rest.split(END)[1]}"


def render(published: Path, root: Path) -> str:
    """The results as Markdown: a figure, Table 3, and config and commit that they come from."""
    place = published.relative_to(root).as_posix()
    return "\n".join(
        [
            "",
            _image("comparison_grid", published, root),
            "",
            (published / "table3_accuracy.md").read_text(encoding="utf-8").strip(),
            "",
            f"{_origin(published)} More figures of this run are in [{place}]({place}).",
            "",
        ]
    )


def results_page(published: Path, root: Path) -> str:
    """All published results of a run as a page of Markdown, with links from the root of the checkout."""
    from cadmus.experiments import figures

    table = (published / "table3_accuracy.md").read_text(encoding="utf-8").strip()
    parts = [f"# The run {published.name}", _origin(published), figures()["table3_accuracy"].caption, table]
    for name, figure in figures().items():
        if (published / f"{name}.png").is_file():
            title = name.replace("_", " ").capitalize()
            parts += [f"## {title}", _image(name, published, root), figure.caption]
    return "\n\n".join(parts) + "\n"


def _image(name: str, published: Path, root: Path) -> str:
    """A figure of the run as Markdown."""
    words = name.replace("_", " ")
    path = published.relative_to(root).as_posix()
    return f"![The {words} of the run {published.name}]({path}/{name}.png)"


def _origin(published: Path) -> str:
    """A sentence on where the results of a run come from."""
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
        "config_digest": noted["config_digest"],
        "model_digest": noted["model_digest"],
        "commit": noted["commit"],
        "parameters": model["parameters"],
        "steps": model["steps"],
        "programs": model["programs"],
        "tokens": model["tokens"],
        "training_seconds": round(model["seconds"], 1),
        "cores": model["cores"],
    }
