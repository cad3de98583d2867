"""The published results of a study, and the part of its page in docs/findings that is written from them."""

import shutil
from pathlib import Path

from cadmus.figures import style
from cadmus.store import write_text
from cadmus.study import FIGURE, forest
from cadmus.study.comparison import compare
from cadmus.study.page import cost, numbers, picture
from cadmus.study.results import Results, read
from cadmus.tables import escape
from dev.docs import BEGIN, END, with_generated

_FILE = "study.parquet"


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
    compared = compare(study)
    origin = f"[study.parquet]({_FILE}); {cost(study)}\n\n{_command(study, root)}\n"
    block = with_generated(page, f"{picture(study)}\n{origin}\n{numbers(study, compared)}", text)
    directory.mkdir(parents=True, exist_ok=True)
    style.save(style.styled(forest.draw)(study, compared), [directory / f"{FIGURE}.png"])
    # The published results themselves may be drawn again.
    if results.resolve() != (directory / _FILE).resolve():
        shutil.copyfile(results, directory / _FILE)
    write_text(page, block)
