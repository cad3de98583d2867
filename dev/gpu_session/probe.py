"""Import what a training needs and try the device; the last line that is printed is JSON, or the problem."""

import json
import sys


def main(device: str) -> str | None:
    """Print what was found; return the problem."""
    try:
        import deepspeed  # noqa: F401
        import numba  # noqa: F401
        import pyarrow  # noqa: F401
        import pydantic  # noqa: F401
        import torch

        from cadmus.store import versions
        from cadmus.tools import cores
    except ImportError as error:
        return f"a package is missing: {error}"
    found = {"python": sys.version.split()[0], "versions": versions(), "cores": cores()}
    if device == "cuda":
        if not torch.cuda.is_available():
            return (
                f"PyTorch {torch.__version__} finds no GPU that it can use; is there one, and its driver new?"
            )
        properties = torch.cuda.get_device_properties(0)
        try:
            ones = torch.ones(64, 64, device=device, dtype=torch.bfloat16)
            right = (ones @ ones)[0, 0].item() == len(ones)
        except RuntimeError as error:
            return f"{properties.name}: {str(error).splitlines()[0]}"
        if not right:
            return f"{properties.name}: gives a wrong product"
        gib = round(properties.total_memory / 2**30, 1)
        found |= {"gpu": properties.name, "gpus": torch.cuda.device_count(), "gib": gib}
    print(json.dumps(found))
    return None


if __name__ == "__main__":
    problem = main(sys.argv[1])
    if problem:
        print(problem)
        sys.exit(2)
