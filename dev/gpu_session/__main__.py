"""``python -m dev.gpu_session pack | run | collect | check``; each has ``--help``."""

import argparse
import os
import sys
from pathlib import Path

from dev.gpu_session import __doc__ as idea
from dev.gpu_session import session

# On the rented machine, only the standard library is there at first: the others import what they need.


def pack(given: argparse.Namespace) -> int:
    from dev.gpu_session import packing

    return packing.pack()


def run(given: argparse.Namespace) -> int:
    return session.run(given)


def work(given: argparse.Namespace) -> int:
    return session.work(given)


def check(given: argparse.Namespace) -> int:
    return session.check(given)


def collect(given: argparse.Namespace) -> int:
    from dev.gpu_session import collecting

    return collecting.collect(given.folder, given.cores)


def main() -> int:
    options = argparse.ArgumentParser(description=idea, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = options.add_subparsers(required=True)
    packs = kinds.add_parser("pack", help="at home: prepare .gpu/ and print the command to run there")
    packs.set_defaults(action=pack)

    runs = kinds.add_parser("run", help="there: check, measure and train; give it again until it is done")
    runs.set_defaults(action=run)
    out = Path(os.environ.get("OUT", "gpu_session"))
    runs.add_argument("--output", type=Path, default=out, help="folder that comes back, $OUT by default")
    runs.add_argument("--command", type=float, default=575.0, help="seconds of this command")
    works = kinds.add_parser("work", help="the session itself, which `run` starts")
    works.set_defaults(action=work)
    folder = Path.home() / "cadmus-session"
    for each in (runs, works):
        each.add_argument("--work", type=Path, default=folder, help="folder for everything else")
        each.add_argument("--config", default="config/h100.yaml", help="what to train")
        each.add_argument("--seconds", type=float, default=1500.0, help="of the whole session")
        each.add_argument("--slow", type=float, default=1.0, help="factor of the limits of the stages")
        each.add_argument(
            "--train-seconds", type=float, help="at most, of the training; all that is left by default"
        )
        each.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu is for rehearsals")

    checks = kinds.add_parser("check", help="on any GPU: check and measure, without training")
    checks.set_defaults(action=check)
    checks.add_argument("--output", type=Path, default=Path("gpu_check"), help="folder for the report")
    checks.add_argument("--ranks", type=int, default=1, metavar="N", help="GPUs to check together")

    collects = kinds.add_parser("collect", help="at home: from what came back to tables and figures")
    collects.set_defaults(action=collect)
    collects.add_argument("folder", type=Path, help="folder with the files that came back")
    collects.add_argument("--cores", default="all", help="cores for Snakemake")
    given = options.parse_args()
    try:
        return given.action(given)
    except session.Stop as stop:
        print(f"gpu-session: {stop}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
