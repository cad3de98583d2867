"""The published results of a study, and the part of its page in docs/findings that is written from them."""

import json
import shutil
import tempfile
from pathlib import Path

import polars as pl

from cadmus import plugins
from cadmus.store import write_text
from cadmus.study import COMPARISON, PAGE, Models, files_of
from cadmus.study.page import cost, figures, write_all
from cadmus.study.results import Results, read
from cadmus.tables import escape
from dev.docs import BEGIN, END, with_generated

_FILE, _NUMBERS = "study.parquet", "numbers.md"


def _published(root: Path) -> Models:
    """Return the FLOPs, 6 x parameters x tokens, and the parameters of the published models."""
    runs = {path.parent.name: json.loads(path.read_text()) for path in root.glob("docs/models/*/run.json")}
    return {name: (6.0 * run["parameters"] * run["tokens"], run["parameters"]) for name, run in runs.items()}


def _command(study: Results, root: Path) -> str:
    """Return how to run a study: a command or, if this version lacks its config, the commit that has it."""
    config = f"docs/findings/{study.name}/study.yaml"
    if (root / config).is_file():
        return f"```sh\nmake run CONFIG={config}\n```"
    commit = study.commit[:7]
    return (
        f"This version does not have what the study tested. The study runs at commit `{commit}`; "
        f"`git grep -l '^name: {study.name}' {commit} -- '*.yaml'` finds its config."
    )


def publish(results: Path, root: Path) -> None:
    """Write the results of a study to docs/findings/NAME, and into its page there.

    A new page begins with the question of the study.
    """
    study = read(results)
    if study.missing:
        raise SystemExit(f"{results}: {len(study.missing)} runs are missing; finish the study first")
    directory = root / "docs/findings" / study.name
    page = directory / "README.md"
    text = None if page.is_file() else f"# {escape(study.question)}\n\n{BEGIN}\n{END}\n"
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder)
        write_all(results, drawn, _published(root))
        tables = {name: pl.read_csv(drawn / f"{name}.csv") for name in plugins.study_parts(study.of_labs)}
        origin = (
            f"[All numbers]({_NUMBERS}), [comparison.csv]({COMPARISON}), "
            f"[study.parquet]({_FILE}); {cost(study)}\n\n"
            f"{_command(study, root)}\n"
        )
        block = with_generated(page, f"{figures(study, tables, '.')}\n{origin}", text)
        directory.mkdir(parents=True, exist_ok=True)
        # The published results themselves may be drawn again.
        if results.resolve() != (directory / _FILE).resolve():
            shutil.copyfile(results, directory / _FILE)
        for name in files_of(tables):
            if not name.endswith(".pdf"):
                shutil.copyfile(drawn / name, directory / (_NUMBERS if name == PAGE else name))
    write_text(page, block)
