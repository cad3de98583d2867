"""Import what a training needs and try the device: ``python -m dev.gpu_session.probe DEVICE FACTS``.

The last line that is printed says what was found, or the problem.
"""

import json
import sys
from pathlib import Path
from typing import Any


class Unusable(Exception):
    """This machine cannot train; the message is one line."""


def probe(device: str) -> dict[str, Any]:
    """Return the versions of packages, the cores, and the GPU."""
    try:
        import deepspeed  # noqa: F401
        import numba  # noqa: F401
        import pyarrow  # noqa: F401
        import pydantic  # noqa: F401
        import torch

        from cadmus.store import versions
        from cadmus.tools import cores
    except ImportError as error:
        raise Unusable(f"a package is missing: {error}") from None
    found = {"python": sys.version.split()[0], "versions": versions(), "cores": cores()}
    if device == "cpu":
        return found
    if not torch.cuda.is_available():
        problem = "finds no GPU that it can use; is there one, and its driver new?"
        raise Unusable(f"PyTorch {torch.__version__} {problem}")
    properties = torch.cuda.get_device_properties(0)
    ones = torch.ones(64, 64, dtype=torch.bfloat16)
    try:
        product = ones.to(device) @ ones.to(device)
        right = bool((product == len(ones)).all())
    except RuntimeError as error:
        raise Unusable(f"{properties.name}: {str(error).splitlines()[0]}") from None
    if not right:
        raise Unusable(f"{properties.name}: gives a wrong product")
    gib = round(properties.total_memory / 2**30, 1)
    return found | {"gpu": properties.name, "gpus": torch.cuda.device_count(), "gib": gib}


if __name__ == "__main__":
    try:
        facts = json.dumps(probe(sys.argv[1]))
    except Unusable as problem:
        print(problem)
        sys.exit(2)
    Path(sys.argv[2]).write_text(facts)
    print(facts)
