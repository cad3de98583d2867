"""Pages generated from code and results: cards for the Hugging Face Hub, dataset reports, the manual.

A card is the README.md of a model or dataset. The Hub shows it as the page of the repository and reads its
front matter; all numbers in it come from files.
"""

LICENSE = "mit"
TAGS = ("program-synthesis", "stack-machine")
CITATION = """\
## Citation

Cadmus is the system of this [paper](https://arxiv.org/abs/2602.09112). This is an unofficial, \
independent implementation;
the authors of the paper are not involved.

```bibtex
@article{webb2026smallscale,
  title   = {A Small-Scale System for Autoregressive Program Synthesis Enabling Controlled Experimentation},
  author  = {Webb, Russ and Ramapuram, Jason},
  journal = {arXiv preprint arXiv:2602.09112},
  year    = {2026}
}
```
"""


def card(front_matter: str, text: str) -> str:
    """Return a card: the front matter, which is YAML, the Markdown ``text``, the citation."""
    return f"---\n{front_matter}\n---\n\n{text}\n{CITATION}"
