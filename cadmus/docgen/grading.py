"""Write the questions of each template into ``docs/grading.md``."""

from pathlib import Path

from cadmus.errors import InputError
from cadmus.evaluate.questions import definitions
from cadmus.tables import markdown

PAGE = "docs/grading.md"
BEGIN, END = "<!-- questions -->", "<!-- /questions -->"


def page(root: Path) -> str:
    """Return the page of a checkout, with the current questions.

    Raises:
        InputError: the page or its markers are missing.
    """
    path = root / PAGE
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise InputError(f"{path}: needs one {BEGIN} and one {END}")
    before, rest = text.split(BEGIN)
    headings = ["question", "the prompt ends", "a verified completion solves it if"]
    return f"{before}{BEGIN}\n\n{markdown(headings, definitions())}\n{END}{rest.split(END)[1]}"
