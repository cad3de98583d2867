"""The results that the README shows: copied from a run, with where they come from."""

import json
import shutil
from pathlib import Path
from typing import Any

from cadmus.errors import InputError
from cadmus.files import replacing

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
    run = json.loads((published / "run.json").read_text(encoding="utf-8"))
    place = published.relative_to(root).as_posix()
    table = (published / "table3_accuracy.md").read_text(encoding="utf-8").strip()
    config = f"[config](config/{run['name']}.yaml)"
    minutes = run["training_seconds"] / 60
    return "\n".join(
        [
            "",
            f"![The comparison grid of the run {run['name']}]({place}/comparison_grid.png)",
            "",
            table,
            "",
            f"Run `{run['name']}` ({config}, digest `{run['config_digest']}`, "
            f"commit `{run['commit'][:12]}`): {run['parameters']:,} parameters, "
            f"trained on {run['programs']:,} programs ({run['tokens']:,} tokens) "
            f"in {run['steps']:,} steps and {minutes:.1f} minutes on {run['cores']} CPU cores. "
            f"More figures of this run are in [{place}]({place}).",
            "",
        ]
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
