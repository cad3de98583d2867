"""Measure the speed of one part of Cadmus.

vm         instructions per second of the compiled and the reference VM
templates  true programs per second of each template
train      a training step, and GPT-NeoX of transformers (--config)

python -m dev.bench vm --output docs/benchmarks/bench_vm.json
"""

import inspect
from pathlib import Path

from dev import measure
from dev.bench import data, training

BENCHMARKS = {"vm": data.vm, "templates": data.templates, "train": training.train}


def main() -> None:
    options = measure.parser(__doc__, output=True)
    options.add_argument("name", choices=BENCHMARKS, metavar="NAME")
    options.add_argument("--config", type=Path, help="config file")
    given = vars(options.parse_args())
    function = BENCHMARKS[given["name"]]
    names = [name for name in inspect.signature(function).parameters if given[name] is not None]
    measure.report(function(**{name: given[name] for name in names}), given["output"])


if __name__ == "__main__":
    main()
