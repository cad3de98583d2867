"""Pages generated from code and results: the card of a model, and the manual.

A card is the README.md of a model, which the Hugging Face Hub shows. All numbers in it come from files.
"""

from pathlib import Path

LICENSE = "mit"
TAGS = ("program-synthesis", "stack-machine")
CITATION = Path(__file__).with_name("citation.md").read_text(encoding="utf-8")


def card(front_matter: str, text: str) -> str:
    """Return a card: the front matter, which is YAML, the Markdown ``text``, the citation."""
    return f"---\n{front_matter}\n---\n\n{text}\n{CITATION}"
