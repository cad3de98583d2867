"""Parts common to model cards and dataset cards for the Hugging Face Hub."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from huggingface_hub import CardData

LICENSE = "mit"
TAGS = ("program-synthesis", "stack-machine")
# The file that the Hub shows for a directory.
CARD = "README.md"

PAPER = "https://arxiv.org/abs/2602.09112"
BIBTEX = """\
@article{webb2026smallscale,
  title   = {A Small-Scale System for Autoregressive Program Synthesis Enabling Controlled Experimentation},
  author  = {Webb, Russ and Ramapuram, Jason},
  journal = {arXiv preprint arXiv:2602.09112},
  year    = {2026}
}"""
CITATION = f"""\
## Citation

Cadmus is the system of this [paper]({PAPER}). This is an unofficial, independent implementation;
the authors of the paper are not involved.

```bibtex
{BIBTEX}
```
"""


def card(front_matter: "CardData", text: str) -> str:
    """Return a card: the front matter as YAML, the Markdown ``text``, the citation."""
    return f"---\n{front_matter.to_yaml()}\n---\n\n{text}\n{CITATION}"
