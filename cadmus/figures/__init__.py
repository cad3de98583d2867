"""The figures, tables and pages, one module each, drawn from numbers files alone.

A module holds ``COLUMNS``, the columns that each of its numbers files must have, and for a figure
``numbers``, what is drawn, and ``draw``, which returns a Matplotlib figure; for a table ``table``, which
returns its rows; for a page ``page``, which returns its HTML.
"""

from pathlib import Path

FIGURES = {
    "comparison_grid": (
        "Accuracy of the next token at the comparator, for held-out programs that compare X and Y. The "
        "dashed square holds the values that the model was trained on."
    ),
    "accuracy_by_distance": (
        "Accuracy of the next token at the comparator by how far X or Y lies outside of the training range, "
        "for each of the three comparators; 0 is inside. Bands are Wilson 95 % intervals, as in all figures."
    ),
    "probe_final_block": (
        "How well logistic regression reads X and Y off the output of the final block, token by token, "
        "beside the best guess given the instructions seen so far, and the same regression after the values "
        "of the programs it is fitted to were exchanged among them (control)."
    ),
    "probe_layers": (
        "How well logistic regression reads X and Y off the output of every layer at every token."
    ),
    "logit_lens": (
        "What every layer would say next if it were the last one: the loss of the next instruction, of which "
        "the scale ends at a uniform guess, and how often the likeliest one is that of the last layer."
    ),
    "patching": (
        "Whose comparator is predicted when the hidden state at the end of an expression is exchanged for "
        "that of another program, the donor. If the state holds the number that is compared, the comparator "
        "becomes that of the donor's number and the program's other one."
    ),
    "accuracy_by_compute": "Accuracy on held-out programs of each sub-problem along the training.",
    "accuracy_by_length": (
        "Accuracy on each sub-problem by the length of the held-out program, four lengths taken together."
    ),
    "accuracy_by_examples": (
        "Induction: accuracy of the definition by the number of examples that it is found from, all of which "
        "a verified one satisfies."
    ),
    "output_tokens": (
        "Accuracy on the comparison against the most output tokens that a large language model may use; "
        "Cadmus uses one."
    ),
    "training_curve": (
        "Losses of the training, of all tokens and of those of completions, and tokens trained on."
    ),
}
"""The figures and their captions."""
TABLES = {
    "table1_related_work": "Related work (the paper's Table 1).",
    "table2_instructions": (
        "Instructions of the comparison and their alternate symbols (the paper's Table 2)."
    ),
    "table3_accuracy": (
        "Accuracy on each sub-problem with Wilson 95 % intervals, beside the paper's (its Table 3)."
    ),
}
"""The tables and their captions."""
PAGES = {
    "failures": "Completions that failed, with what the machine made of each of them.",
}
"""The pages and their captions."""
CAPTIONS = FIGURES | TABLES | PAGES
NAMES = tuple(CAPTIONS)
FORMATS = {"figure": (".pdf", ".png", ".csv"), "table": (".csv", ".md", ".tex"), "page": (".html",)}


def produce(name: str, numbers: list[Path], output: Path) -> list[Path]:
    """Draw a figure, or render a table or a page.

    Args:
        name: one of ``NAMES``.
        numbers: its numbers files, in the order of the module's ``COLUMNS``.
        output: a directory, in which the files are called ``name``; or, if it ends in one of the formats,
            the path of one of the files, the others being put beside it.

    Returns:
        The files written: .pdf, .png and .csv (the numbers drawn), or .csv, .md and .tex, or .html.

    Raises:
        InputError: no such figure, a wrong number of files, or a file that is missing or damaged.
    """
    import importlib

    from cadmus.common.files import replacing
    from cadmus.errors import InputError, suggest
    from cadmus.evaluate.results import read_results
    from cadmus.figures import style, tables

    if name not in NAMES:
        raise InputError(f"no figure, table or page {name!r}; {suggest(name, NAMES)}")
    module = importlib.import_module(f"cadmus.figures.{name}")
    most = len(module.COLUMNS)
    least = most - getattr(module, "OPTIONAL", 0)
    if not least <= len(numbers) <= most:
        wanted = "; ".join(", ".join(columns) for columns in module.COLUMNS) or "none"
        count = f"{least}" if least == most else f"{least} or {most}"
        raise InputError(
            f"{name} is drawn from {count} numbers files, not {len(numbers)}; their columns: {wanted}"
        )
    frames = [read_results(path, columns) for path, columns in zip(numbers, module.COLUMNS, strict=False)]
    kind = "figure" if name in FIGURES else "table" if name in TABLES else "page"
    formats = FORMATS[kind]
    if output.suffix in {suffix for of_kind in FORMATS.values() for suffix in of_kind} - set(formats):
        raise InputError(f"{output}: {name} is written as {', '.join(formats)}")
    stem = output.with_suffix("") if output.suffix in formats else output / name
    paths = [stem.with_name(stem.name + suffix) for suffix in formats]
    if kind == "figure":
        style.save(module.draw(*frames), paths[:2])
        with replacing(paths[2]) as temporary:
            module.data(*frames).write_csv(temporary)
    elif kind == "table":
        tables.save(module.table(*frames), paths)
    else:
        with replacing(paths[0]) as temporary:
            temporary.write_text(module.page(*frames), encoding="utf-8")
    return paths
