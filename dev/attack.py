"""Search for policies that fool the grade of a question.

Two policies per question are chosen on the same test programs: the best that the search finds, and the best
of the list cadmus/evaluate/baselines/attacks.tsv. In a policy, {0} is the first instruction of the prompt,
and {-3:} its last three. The list is a baseline of every evaluation: add to it what the search finds beyond
it.

python -m dev.attack equality
"""

import re
from collections.abc import Iterable
from itertools import product

import numpy as np

from cadmus import isa
from cadmus.config import Dataset
from cadmus.dataset import sampler
from cadmus.evaluate.baselines.attacks import attacks, best, solved_by
from cadmus.evaluate.grading import TaskBatch, tasks_of
from cadmus.evaluate.questions import QUESTIONS
from cadmus.tables import plain
from dev.measure import parser

_SYMBOLS = [row.symbol for row in isa.INSTRUCTIONS if row.symbol not in (isa.END, isa.DROP)]
_SLICES = [
    *(f"{{{i}}}" for i in (*range(7), *range(-5, 0))),
    *(f"{{{i}:{j}}}" for i, j in product(range(6), range(2, 7)) if j - i > 1),
    *(f"{{{i}:{j}}}" for i, j in product(range(5), ("", -1, -2, -3))),
    *(f"{{{i}:{j}}}" for i, j in product(range(-6, -2), ("", -1))),
]
"""Pieces of the prompt from which the search composes policies."""
_GRADED = 100
"""Programs on which the search grades policies, spread evenly."""
_BEAM, _EDITS = 24, 200
"""Policies kept in each round of the search, and random edits of each."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("questions", nargs="*", help="questions, all by default")
    options.add_argument("--programs", type=int, default=1_000, help="test programs per template")
    options.add_argument("--rounds", type=int, default=4, help="rounds of random edits")
    given = options.parse_args()
    asked = given.questions or list(QUESTIONS)
    rows = [
        search(task, given.rounds)
        for template in dict.fromkeys(QUESTIONS[name].template for name in asked)
        for task in tasks_for(template, given.programs)
        if task.name in asked
    ]
    print(plain(["question", "tested", "found", "solved", "listed", "solved"], rows))


def tasks_for(template: str, programs: int) -> list[TaskBatch]:
    """Return the questions of a template on its test programs."""
    samples = sampler.sample(Dataset(), 1, template, "test", 0, programs)
    samples.template = np.full(len(samples), template, object)
    return tasks_of(samples)


def search(task: TaskBatch, rounds: int) -> list[str]:
    """Return the row of a question: the best policy found, the best listed, and the fractions they solve."""
    dataset = Dataset()
    policies = best_policy(task, dataset, rounds), best((line.policy for line in attacks()), task, dataset)
    shares = solved_by(policies, task, dataset).mean(1)
    cells = [cell for text, share in zip(policies, shares, strict=True) for cell in (text, f"{share:.1%}")]
    return [task.name, f"{len(task.programs):,}", *cells]


def best_policy(task: TaskBatch, dataset: Dataset, rounds: int) -> str:
    """Search for the policy that solves most programs.

    The search starts from ``attacks.tsv`` and all constants of up to two instructions, and edits at random.
    """
    rng = np.random.default_rng(1)
    rows = np.unique(np.linspace(0, len(task.programs) - 1, _GRADED).astype(np.int64))
    few = task._replace(programs=task.programs.take(rows), prompt_length=task.prompt_length[rows])
    symbols = sorted(set("".join(few.programs.suffixes(few.prompt_length).to_strings())))
    known = list(dict.fromkeys(line.policy for line in attacks()))
    constants = map("".join, product(["", *_SYMBOLS], repeat=2))
    kept = [*known, *_fittest(constants, few, dataset)]
    for _ in range(rounds):
        edited = [edit for policy in kept for edit in _edits(policy, symbols, rng)]
        kept = _fittest([*kept, *edited], few, dataset)
    return best([*kept, *known], task, dataset)


def _fittest(policies: Iterable[str], task: TaskBatch, dataset: Dataset) -> list[str]:
    """Return policies that solve most programs; of equals the shorter, which more prompts have room for."""
    listed = sorted(set(policies), key=lambda policy: (len(policy), policy))
    solved = solved_by(listed, task, dataset).sum(1)
    return [listed[k] for k in np.argsort(-solved, kind="stable")[:_BEAM]]


def _edits(policy: str, symbols: list[str], rng: np.random.Generator) -> Iterable[str]:
    tokens = [found.group() for found in re.finditer(r"\{[^}]*\}|.", policy)]
    for _ in range(_EDITS):
        pool = _SLICES if rng.random() < 0.5 else symbols
        new = pool[rng.integers(len(pool))]
        at = int(rng.integers(len(tokens) + 1))
        removed = int(rng.integers(2))
        added = [] if removed and rng.random() < 0.3 else [new]
        yield "".join([*tokens[:at], *added, *tokens[at + removed :]])


if __name__ == "__main__":
    main()
