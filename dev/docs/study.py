"""The published results of a study, and the part of its page in docs/findings that is written from them."""

import shutil
import tempfile
from pathlib import Path

from cadmus.store import write_text
from cadmus.study import FIGURE
from cadmus.study.comparison import compare
from cadmus.study.page import cost, numbers, picture, write_all
from cadmus.study.results import Results, read
from cadmus.tables import escape
from dev.docs import BEGIN, END, with_generated

_FILE, PICTURE = "study.parquet", f"{FIGURE}.png"


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
        write_all(results, drawn)
        origin = f"[study.parquet]({_FILE}); {cost(study)}\n\n{_command(study, root)}\n"
        tables = numbers(study, compare(study))
        block = with_generated(page, f"{picture(study)}\n{origin}\n{tables}", text)
        directory.mkdir(parents=True, exist_ok=True)
        # The published results themselves may be drawn again.
        if results.resolve() != (directory / _FILE).resolve():
            shutil.copyfile(results, directory / _FILE)
        shutil.copyfile(drawn / PICTURE, directory / PICTURE)
    write_text(page, block)
