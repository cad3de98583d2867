"""What the measuring commands of this folder share."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from cadmus.common.files import replacing
from tests.checkout import ROOT


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the option of :func:`report`."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument("--output", type=Path, help="JSON file for the result, which is also printed")
    return made


def report(result: dict[str, Any], output: Path | None) -> None:
    """Print a result as JSON and write it to ``output``, if there is one.

    Paths in the checkout are relative to it, and those in the environment begin with its name.
    """
    text = json.dumps(result, indent=2) + "\n"
    text = text.replace(f"{ROOT}/", "").replace(sys.prefix, Path(sys.prefix).name)
    if output:
        with replacing(output) as temporary:
            temporary.write_text(text, encoding="utf-8")
    print(text, end="")
