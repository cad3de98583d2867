"""``cadmus attack``."""

from pathlib import Path

import click

from cadmus.cli.options import CONFIG, WholeNumber, echo_table, seed_option


@click.command()
@click.argument("questions", nargs=-1)
@click.option("--config", type=CONFIG, metavar="FILE", help="Config with other ranges: a file or a name.")
@click.option(
    "--programs",
    default=1_000,
    show_default=True,
    type=WholeNumber(min=1, max=1_000_000),
    metavar="N",
    help="Test programs per template.",
)
@click.option(
    "--longest",
    default=3,
    show_default=True,
    type=WholeNumber(min=1, max=4),
    metavar="N",
    help="Instructions in the longest constant; 4 takes minutes where any completion is allowed.",
)
@click.option(
    "--rounds",
    default=4,
    show_default=True,
    type=WholeNumber(min=0, max=100),
    metavar="N",
    help="Rounds of the search for copying policies.",
)
@seed_option(1, "programs and search")
def attack(
    questions: tuple[str, ...], config: Path | None, programs: int, longest: int, rounds: int, seed: int
) -> None:
    """Search for policies that fool the grade of QUESTIONS.

    By default, of all questions. Three policies per question are chosen on the same programs: the best
    constant, the best policy that copies from the prompt, and the best of the list
    cadmus/evaluate/attacks.tsv. In a policy, {0} is the first instruction of the prompt, and {-3:} its last
    three. The list is a baseline of every evaluation: add to it what the search finds beyond it.

    \b
    Examples:
      cadmus attack equality
      cadmus attack random --longest 4
    """
    import numpy as np

    from cadmus.config import TEMPLATES, Dataset, load_config
    from cadmus.dataset import sampler
    from cadmus.errors import InputError, suggest
    from cadmus.evaluate import attacks
    from cadmus.evaluate.grading import tasks_of
    from cadmus.evaluate.questions import questions_of
    from cadmus.tools import progress

    templates = {name: template for template in TEMPLATES for name in questions_of(template)}
    for name in questions:
        if name not in templates:
            raise InputError(f"no question {name!r}; {suggest(name, templates)}")
    asked = questions or tuple(templates)
    dataset = load_config(config).dataset if config else Dataset()
    tasks = []
    for template in dict.fromkeys(templates[name] for name in asked):
        samples = sampler.sample(dataset, seed, template, "test", 0, programs)
        samples.template = np.full(len(samples), template, object)
        tasks += [task for task in tasks_of(samples) if task.name in asked]
    rows = [("question", "tested", "constant", "solved", "copy", "solved", "listed", "solved")]
    for task in progress("attack", tasks):
        found = (
            attacks.best_constant(task, dataset, longest),
            attacks.best_copy(task, dataset, rounds, seed),
            attacks.best((line.policy for line in attacks.attacks()), task, dataset),
        )
        shares = attacks.solved_by(found, task, dataset).mean(1)
        cells = [cell for text, share in zip(found, shares, strict=True) for cell in (text, f"{share:.1%}")]
        rows.append((task.name, f"{len(task.programs):,}", *cells))
    echo_table(rows, numbers=False)
