"""Search for policies that fool the grade of a question.

Three policies per question are chosen on the same test programs: the best constant, the best policy that
copies from the prompt, and the best of the list cadmus/evaluate/attacks.tsv. In a policy, {0} is the first
instruction of the prompt, and {-3:} its last three. The list is a baseline of every evaluation: add to it
what the search finds beyond it.

python -m dev.attack equality
"""

import re
from collections.abc import Callable, Iterable
from itertools import islice, product

import numpy as np

from cadmus import isa
from cadmus.config import Dataset
from cadmus.dataset import sampler
from cadmus.evaluate.attacks import attacks, best, solved_by
from cadmus.evaluate.grading import Task, tasks_of
from cadmus.evaluate.questions import QUESTIONS
from cadmus.programs import Programs, join
from cadmus.tables import plain
from cadmus.vm.compiled import verdicts
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
"""Programs on which the search grades policies."""
_BEAM, _EDITS = 24, 200
"""Policies kept in each round of the search, and random edits of each."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("questions", nargs="*", help="questions, all by default")
    options.add_argument("--programs", type=int, default=1_000, help="test programs per template")
    options.add_argument("--longest", type=int, default=3, help="instructions in the longest constant")
    options.add_argument("--rounds", type=int, default=4, help="rounds of the search for copying policies")
    given = options.parse_args()
    asked = given.questions or list(QUESTIONS)
    rows = [
        search(task, given.longest, given.rounds)
        for template in dict.fromkeys(QUESTIONS[name].template for name in asked)
        for task in tasks_for(template, given.programs)
        if task.name in asked
    ]
    header = ["question", "tested", "constant", "solved", "copy", "solved", "listed", "solved"]
    print(plain(header, rows))


def tasks_for(template: str, programs: int) -> list[Task]:
    """Return the questions of a template on its test programs."""
    samples = sampler.sample(Dataset(), 1, template, "test", 0, programs)
    samples.template = np.full(len(samples), template, object)
    return tasks_of(samples)


def search(task: Task, longest: int, rounds: int) -> list[str]:
    """Return the row of a question: the best policies of each kind and the fraction that they solve."""
    dataset = Dataset()
    listed = best((line.policy for line in attacks()), task, dataset)
    found = (best_constant(task, dataset, longest), best_copy(task, dataset, rounds), listed)
    shares = solved_by(found, task, dataset).mean(1)
    cells = [cell for text, share in zip(found, shares, strict=True) for cell in (text, f"{share:.1%}")]
    return [task.name, f"{len(task.programs):,}", *cells]


def best_constant(task: Task, dataset: Dataset, longest: int) -> str:
    """Search all constants of at most ``longest`` instructions for the one that solves most programs.

    All are executed after a few prompts; those that make most of them true go on, and are graded at last.
    """
    texts = ("".join(text) for n in range(longest + 1) for text in product(_SYMBOLS, repeat=n))
    kept: list[str] = []
    # The shorter ones come first.
    while chunk := list(islice(filter(task.question.form.fullmatch, texts), 200_000)):
        kept = _first([*kept, *chunk], lambda texts: _true(texts, _some(task, 16)), 8_192)
    kept = _first(kept or [""], lambda texts: _true(texts, _some(task, 128)), 512)
    kept = _first(kept, lambda texts: solved_by(texts, _some(task, _GRADED), dataset).sum(1), _BEAM)
    return best(kept, task, dataset)


def _first(texts: list[str], score: Callable[[list[str]], np.ndarray], most: int) -> list[str]:
    """Return the ``most`` texts with the highest scores; of equals the first."""
    return [texts[k] for k in np.argsort(-score(texts), kind="stable")[:most]]


def _true(texts: list[str], task: Task) -> np.ndarray:
    """Count the programs that each constant makes true."""
    n = len(task.programs)
    row, of = np.divmod(np.arange(len(texts) * n), n)
    programs = join(task.prompts.take(of), Programs.from_strings(texts).take(row))
    return verdicts(programs).reshape(len(texts), n).sum(1)


def best_copy(task: Task, dataset: Dataset, rounds: int) -> str:
    """Search for the policy that solves most programs, from those of ``attacks.tsv`` by random edits."""
    rng = np.random.default_rng(1)
    few = _some(task, _GRADED)
    symbols = sorted(set("".join(few.programs.suffixes(few.prompt_length).to_strings())))
    known = kept = list(dict.fromkeys(line.policy for line in attacks()))
    for _ in range(rounds):
        edited = [edit for policy in kept for edit in _edits(policy, symbols, rng)]
        # Of equals the shorter, which more prompts have room for.
        listed = sorted({*kept, *edited}, key=lambda policy: (len(policy), policy))
        kept = _first(listed, lambda policies: solved_by(policies, few, dataset).sum(1), _BEAM)
    return best([*kept, *known], task, dataset)


def _some(task: Task, most: int) -> Task:
    """Return a task with ``most`` of the programs, spread evenly."""
    rows = np.unique(np.linspace(0, len(task.programs) - 1, most).astype(np.int64))
    return task._replace(programs=task.programs.take(rows), prompt_length=task.prompt_length[rows])


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
