"""What the cards of models and datasets share: front matter that the Hugging Face hub reads, the citation."""

from typing import Any

import yaml

LICENSE = "mit"
TAGS = ("program-synthesis", "stack-machine")
CARD = "README.md"
"""The file that the hub shows of a directory."""

CITATION = """\
## Citation

Cadmus reproduces the system of this [paper](https://arxiv.org/abs/2602.09112):

```bibtex
@article{webb2026smallscale,
  title   = {A Small-Scale System for Autoregressive Program Synthesis Enabling Controlled Experimentation},
  author  = {Webb, Russ and Ramapuram, Jason},
  journal = {arXiv preprint arXiv:2602.09112},
  year    = {2026}
}
```
"""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """The hub's reader takes what stands there, not what it refers to."""
        return True


def card(front_matter: dict[str, Any], text: str) -> str:
    """A card: ``front_matter`` as YAML, the Markdown ``text``, the citation."""
    head = yaml.dump(front_matter, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return f"---\n{head}---\n\n{text}\n{CITATION}"
