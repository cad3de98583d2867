"""Write the generated parts of the documents of this checkout.

config                 config/README.md, docs/columns.md, the JSON schema, the questions in docs/grading.md
run RESULTS            docs/results/NAME and the README, from a finished run
study RESULTS          docs/results/studies/NAME and docs/findings/NAME.md, from a finished study
grids RESULTS STUDY    comparison grids of a study, and states of numbers, from the directory with its runs
verdict RESULTS BEFORE solved@k of a run and of a model before its verdict phase, from pass_at_k.parquet
demo SNAPSHOTS         docs/assets/demo.gif and snapshots for the demo, from those of the shipped model
record RESULTS CONFIG CHANGE
                       a row of the speed record in docs/open-problems.md, from a study with one variant

python -m dev.docs run results/laptop
python -m dev.docs study results/recipe/study.parquet
python -m dev.docs grids results extrapolation
python -m dev.docs verdict results/laptop before.parquet
python -m dev.docs demo results/laptop/training/snapshots
python -m dev.docs record results/speedrun/study.parquet config/studies/speedrun.yaml "squared ReLU"
"""

from pathlib import Path

from cadmus.store import write_text
from dev.docs import config, demo, numbers, readme, speedrun, study
from dev.measure import ROOT, parser


def main() -> None:
    options = parser(__doc__)
    kinds = options.add_subparsers(dest="kind", required=True)
    kinds.add_parser("config")
    for kind in ("run", "study", "grids", "verdict", "demo", "record"):
        kinds.add_parser(kind).add_argument("results", type=Path)
    kinds.choices["record"].add_argument("config", type=Path)
    kinds.choices["record"].add_argument("change", help="what is new since the last record")
    kinds.choices["grids"].add_argument("study", help="name of a config in config/studies")
    kinds.choices["verdict"].add_argument("before", type=Path)
    given = options.parse_args()
    if given.kind == "config":
        for path, text in config.documents(ROOT).items():
            write_text(path, text)
    elif given.kind == "run":
        readme.publish(given.results, ROOT)
    elif given.kind == "study":
        study.publish(given.results, ROOT)
    elif given.kind == "grids":
        numbers.draw(given.results, given.study, ROOT)
    elif given.kind == "verdict":
        readme.before_and_after(given.results, given.before, ROOT)
    elif given.kind == "demo":
        demo.publish(given.results, ROOT)
    else:
        speedrun.add_record(given.results, given.config, given.change, ROOT)


if __name__ == "__main__":
    main()
