"""Write the generated parts of the documents of this checkout.

config                 config/README.md, docs/isa.md, the JSON schema, the questions in docs/grading.md,
                       the plans in docs/index.md
run RESULTS            docs/models/NAME, from a finished run; that of flagship is in the README
study RESULTS          docs/findings/NAME, from a finished study
snapshots SNAPSHOTS    docs/models/laptop/snapshots, from those of the training of the shipped model
demo                   docs/assets: demo.gif and explore.png, what `cadmus explore` shows, and card.png
record RESULTS CONFIG CHANGE
                       a row of the speed record in docs/open-problems.md, from a study with one variant
entry SCORES METHOD    a row of the table of methods that find features, from `cadmus score`

python -m dev.docs run results/laptop
python -m dev.docs study results/recipe/study.parquet
python -m dev.docs snapshots results/laptop/training/snapshots
python -m dev.docs demo
python -m dev.docs record results/speedrun/study.parquet docs/records/speedrun.yaml "squared ReLU"
python -m dev.docs entry scores.parquet "edge attribution patching, A. Author"
"""

import argparse
import importlib
import inspect

from dev.measure import ROOT, parser

KINDS = {
    "config": "config.write",
    "run": "readme.publish",
    "study": "study.publish",
    "snapshots": "demo.publish_snapshots",
    "demo": "demo.publish",
    "record": "speedrun.add_record",
    "entry": "entries.add_entry",
}
"""Functions of this package with the arguments of the command line and, at last, the root of the checkout."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("kind", choices=KINDS)
    options.add_argument("arguments", nargs=argparse.REMAINDER)
    given = options.parse_args()
    # The others import PyTorch or a browser, which takes seconds.
    module, name = KINDS[given.kind].split(".")
    function = getattr(importlib.import_module(f"dev.docs.{module}"), name)
    own = parser(function.__doc__)
    own.prog += f" {given.kind}"
    for name, parameter in [*inspect.signature(function).parameters.items()][:-1]:
        own.add_argument(name, type=parameter.annotation)
    function(**vars(own.parse_args(given.arguments)), root=ROOT)


if __name__ == "__main__":
    main()
