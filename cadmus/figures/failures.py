"""Page of failed completions with their traces."""

import random
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import polars as pl

from cadmus import isa
from cadmus.evaluate.questions import QUESTIONS, named, title
from cadmus.vm import reference

SHOWN = 6
"""Maximum number of distinct failures per sub-problem, drawn at random."""

_PAGE = Template(Path(__file__).with_name("failures.html").read_text(encoding="utf-8"))


def page(completions: pl.DataFrame) -> str:
    """Return the HTML page for the results of ``cadmus evaluate completions``."""
    sections = []
    model = completions.filter(policy="model")
    for name in dict.fromkeys([*QUESTIONS, *model["question"]]):
        rows = model.filter(question=name)
        failed = rows.filter(~pl.col("solved"))
        count = f"{len(failed):,} of {len(rows):,} failed" if len(rows) else "not tested"
        sections.append(
            f"<h2>{escape(title(name))}: {count}</h2><p>Solved: {escape(named(name).solved)}.</p>"
        )
        # The test split of a small template repeats programs.
        distinct = failed.unique(["program", "completion"], keep="first", maintain_order=True).to_dicts()
        sections += map(_article, random.Random(name).sample(distinct, min(SHOWN, len(distinct))))
    return _PAGE.substitute(shown=SHOWN, sections="\n".join(sections))


def _article(row: dict[str, Any]) -> str:
    prompt, rest = row["program"][: row["prompt_length"]], row["program"][row["prompt_length"] :]
    written = prompt + row["completion"]
    completion = row["completion"] + (isa.END if row["ended"] else "")
    result = reference.run(written)
    outputs = " ".join(map(reference.show, result.outputs)) or "nothing"
    if not row["ended"]:
        outcome = f"did not end within {len(written)} instructions"
    elif row["uses_drop"]:
        outcome = f"drops; leaves {outputs}"
    else:
        answer = ", but no answer" if row["verified"] else ""
        outcome = f"{'true' if result.true else 'false'}{answer}; leaves {outputs}"
    steps = "\n".join(
        f"<tr><td><code>{escape(step.symbol)}</code><td><code>"
        f"{escape(' '.join(map(reference.show, step.stack)))}</code>"
        for step in reference.trace(written)
    )
    return f"""\
<article>
<dl>
<dt>model<dd><code>{escape(prompt)}<mark>{escape(completion)}</mark></code>
<dt>original<dd><code>{escape(prompt)}<ins>{escape(rest + isa.END)}</ins></code>
<dt>result<dd>{escape(outcome)}
</dl>
<details><summary>stack after each instruction</summary>
<table><tr><th>instruction<th>stack
{steps}
</table></details>
</article>"""
