"""Pages generated from code and results: cards for the Hugging Face Hub, dataset reports, the manual.

A card is the README.md of a model or dataset. The Hub shows it as the page of the repository and reads its
front matter; all numbers in it come from files.
"""

from pathlib import Path

LICENSE = "mit"
TAGS = ("program-synthesis", "stack-machine")
CITATION = Path(__file__).with_name("citation.md").read_text(encoding="utf-8")


def card(front_matter: str, text: str) -> str:
    """Return a card: the front matter, which is YAML, the Markdown ``text``, the citation."""
    return f"---\n{front_matter}\n---\n\n{text}\n{CITATION}"
