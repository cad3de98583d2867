"""A directory with small valid inputs of every command, written by the commands."""

import json
import shutil
from pathlib import Path

import yaml

from tests.checkout import ROOT

CONFIG = {
    "name": "demo",
    "dataset": {
        "validation": 20,
        "test": 24,
        "values": {"low": -9, "high": 9},
        "templates": {
            name: {"train": 40}
            for name in (
                "basic_math",
                "equality",
                "less_greater",
                "subroutines",
                "random",
                "basic_sequences",
                "advanced_sequences",
                "apply_labels",
                "complete_algorithm",
            )
        },
    },
    "model": {"layers": 1, "width": 16, "heads": 2, "mlp": 16},
    "train": {"steps": 4, "batch_size": 16, "checkpoint_every": 2, "snapshots": 2, "ranks": 1},
    "evaluate": {
        "completions": {"programs": 20},
        "loss": {"programs": 20},
        "pass_at_k": {"programs": 5, "samples": 2},
        "curve": {"programs": 5},
        "grid": {"low": -11, "high": 11, "programs_per_pixel": 1},
        "lens": {"programs": 50},
        "patch": {"programs": 50},
        "probe": {
            "train_programs": 300,
            "validation_programs": 50,
            "test_programs": 50,
            "inverse_regularisation": [1],
        },
    },
    "llm": {"models": ["demo"], "max_output_tokens": [64], "grid_max_output_tokens": 64},
}
STUDY = {
    "name": "demo_study",
    "extends": "config.yaml",
    "study": {
        "question": "Tied?",
        "variants": {"base": {}, "tied": {"model": {"tied": True}}},
        "seeds": [0, 1],
        "experiments": ["completions", "grid"],
        "compare": ["completion_loss", "solved", "accuracy"],
    },
}
RECORD = {
    **STUDY,
    "name": "demo_record",
    "study": {"variants": {"base": {}}, "seeds": [0, 1, 2], "compare": ["next_token"]},
}
LANGUAGE_MODELS = {
    "demo": {
        "model": "demo",
        "endpoint": "chat",
        "transport": "batch",
        "usd_per_million_input": 1,
        "usd_per_million_output": 1,
        "source": "none",
    }
}
EXPERIMENTS = ("completions", "loss", "pass_at_k", "grid", "probe", "lens", "patch", "curve")
READ_FIGURES = ("comparison_grid", "probe_final_block", "probe_layers", "accuracy_by_distance")
TRAIN = (
    "train --config config.yaml --dataset dataset --checkpoints checkpoints --output trained "
    "--metrics training/metrics.jsonl --snapshots training/snapshots"
)
"""The training; that of the workspace is interrupted once its last checkpoint is written."""


def build() -> None:
    """Write all inputs to the working directory."""
    Path("config.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False))
    Path("study.yaml").write_text(yaml.safe_dump(STUDY, sort_keys=False))
    Path("record.yaml").write_text(yaml.safe_dump(RECORD, sort_keys=False))
    Path("llms.yaml").write_text(yaml.safe_dump(LANGUAGE_MODELS))
    shutil.copy(ROOT / "config/tables/devices.yaml", "devices.yaml")
    Path("programs.txt").write_text("34+7=\nu1b2b\n\\E*;4Im\n12+\n")
    Path("session.txt").write_text("34+7=\n.\n,help\nu1b2b\n,undo\n,next\n\n,sample equality\n,trace\n")
    _sample()
    _train()
    _evaluate()
    _publish()
    _study()
    _ask()


def run(line: str) -> None:
    """Run a command in this process."""
    from cadmus.cli.main import cadmus

    cadmus.main(line.split(), prog_name="cadmus", standalone_mode=False)


def _sample() -> None:
    from cadmus.config import load_config
    from cadmus.dataset.shards import plan, write_shard

    config = load_config("config.yaml")
    for shard in plan(config):
        write_shard(config, Path("dataset"), shard.template, shard.split, shard.number)
    run("manifest dataset --config config.yaml")


def _train() -> None:
    from cadmus.train import paths

    remove = paths.remove_checkpoints
    # Leaves what an interrupted training leaves; `trained` is its export.
    paths.remove_checkpoints = lambda directory, keep: None
    try:
        run(TRAIN)
    finally:
        paths.remove_checkpoints = remove
    shutil.copytree("trained", "model")
    shutil.rmtree("trained")
    shutil.move("training", "finished")
    shutil.copytree("model", "saved")
    Path("saved/meta.json").unlink()
    Path("training").mkdir()
    shutil.copy("finished/metrics.jsonl", "training/metrics.partial.jsonl")
    shutil.copytree("finished/snapshots", "training/snapshots.partial")


def _evaluate() -> None:
    from cadmus import experiments

    for name in EXPERIMENTS:
        subject = "--snapshots finished/snapshots" if name == "curve" else "--model model"
        dataset = " --dataset dataset" if experiments.get(name).dataset else ""
        run(f"evaluate {name} {subject}{dataset} --config config.yaml --output experiments/{name}.parquet")


def _publish() -> None:
    """Write a finished run, and a checkout to publish it in."""
    from cadmus.docgen.readme import BEGIN, END, FILES

    for name in FILES:
        path = Path("results/demo", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a,b\n1,2\n" if path.suffix == ".csv" else "| a |\n|---|\n| 1 |\n")
    # Those that the README quotes.
    for name, source in (("table3_accuracy", "completions"), ("grid_regions", "grid")):
        run(f"figure {name} --output results/demo/tables --results experiments/{source}.parquet")
    shutil.copytree("model", "results/demo/model")
    Path("results/demo/experiments").mkdir()
    shutil.copy("experiments/completions.parquet", "results/demo/experiments")
    Path("checkout").mkdir()
    Path("checkout/README.md").write_text(f"# Demo\n\n{BEGIN}\n{END}\n")


def _study() -> None:
    from cadmus.config.study import load_study

    for name in ("study", "record"):
        for found in load_study(f"{name}.yaml").runs:
            for folder, source, target in (
                (found.dataset, "dataset/manifest.json", "dataset/manifest.json"),
                (found.training, "finished/metrics.jsonl", "training/metrics.jsonl"),
                (found.evaluation, "experiments/completions.parquet", "experiments/completions.parquet"),
                (found.evaluation, "experiments/grid.parquet", "experiments/grid.parquet"),
            ):
                path = Path("studies", folder, target)
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, path)
        run(f"study collect {name}.yaml --results studies --output {name}.parquet")
    Path("records/docs/results").mkdir(parents=True)
    run("study record record.parquet --change first --root records")


def _ask() -> None:
    """Write the requests to a language model, and its replies as a batch returns them."""
    options = "--config config.yaml --table llms.yaml --directory llm"
    run(f"llm prepare {options}")
    requests = [json.loads(line) for line in Path("llm/requests/demo.jsonl").read_text().splitlines()]
    lines = []
    for number, request in enumerate(requests):
        message = {"role": "assistant", "content": "<=>"[number % 3]}
        body = {
            "id": f"{number}",
            "object": "chat.completion",
            "created": 1,
            "model": "demo",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
        }
        response = {"status_code": 200, "request_id": "1", "body": body}
        line = {"id": f"{number}", "custom_id": request["custom_id"], "response": response, "error": None}
        lines.append(json.dumps(line))
    half = len(lines) // 2
    Path("replies.jsonl").write_text("".join(line + "\n" for line in lines[:half]))
    run(f"llm collect {options} replies.jsonl")
    Path("replies.jsonl").write_text("".join(line + "\n" for line in lines[half:]))
    run(f"llm score {options} --output llm.parquet")
