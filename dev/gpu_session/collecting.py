"""From the files that came back to a run: the export, its dataset, experiments, figures and tables.

Only the training has run elsewhere. The dataset is sampled again here and must have the same programs. Then
Snakemake makes what depends on the model, except what needs snapshots.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from cadmus import config, store
from cadmus.experiments import FORMATS, figures
from cadmus.model import CARD
from cadmus.model.export import save_export
from cadmus.model.gpt import GPT
from dev.gpu_session.sampling import program_digests
from dev.gpu_session.session import Stop
from dev.gpu_session.weights import join_parts
from dev.measure import ROOT


def collect(folder: Path, cores: str) -> int:
    """Make ``results/NAME`` from the folder of a session, NAME being that of its config."""
    weights, metadata = join_parts(folder)
    report = json.loads((folder / "session.json").read_text())
    run = config.parse_config(metadata["config"], f"{folder}: weights: config")
    place = ROOT / "results" / run.name
    path = place / "session.yaml"
    store.write_text(path, config.loading.as_yaml(run.model_dump()))
    _snakemake(path, cores, [f"results/{run.name}/dataset/manifest.json"])
    _check_programs(place / "dataset", report)
    digest = json.loads((place / "dataset/manifest.json").read_text())["digest"]
    _write_model(weights, {**metadata, **_noted(report), "data_digest": digest}, place / "model")
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines][: metadata["steps"]]
    for record in records:
        record.pop(store.HEADER, None)
    store.write_lines(place / "training/metrics.jsonl", "metrics", records)
    for name in ("session.json", "profile.txt", "log.txt"):
        if (folder / name).is_file():
            shutil.copyfile(folder / name, place / name)
    _snakemake(path, cores, [f"results/{run.name}/{file}" for file in _files()])
    print(f"\nresults/{run.name} is whole: `python -m dev.docs run results/{run.name}` publishes it")
    return 0


def _check_programs(dataset: Path, report: dict[str, Any]) -> None:
    """Check that the session has trained on the programs that were sampled here."""
    here, there = program_digests(dataset), report["programs"]
    different = [name for name in here if here[name] != there.get(name)]
    if different:
        raise Stop(
            f"{dataset / different[0]}: the session sampled other programs; use the versions of its machine"
        )


def _noted(report: dict[str, Any]) -> dict[str, Any]:
    """Return what the metadata of the model say about the machine and the commit of the training."""
    machine, rates = report["machine"], report.get("rates", {})
    measured = [
        facts["matmul_gflop_per_second"] for facts in rates.values() if "matmul_gflop_per_second" in facts
    ]
    return {
        "device": machine.get("gpu", "cpu"),
        "cores": machine["cores"],
        **({"matmul_rate": 1e9 * max(measured)} if measured else {}),
        "trained_by": {"commit": report["commit"], "versions": machine["versions"]},
    }


def _write_model(weights: dict[str, torch.Tensor], metadata: dict[str, Any], directory: Path) -> None:
    model = GPT(config.Model(**metadata["config"]["model"]))
    missing, unexpected = model.load_state_dict(weights, strict=False)
    # A tied matrix is stored once.
    if unexpected or set(missing) - {"lm_head.weight"}:
        raise Stop(f"weights: {', '.join([*unexpected, *missing])}: not those of the config")
    save_export(model, directory, metadata, torch.bfloat16)


def _files() -> list[str]:
    """Return the outputs of a run that need no snapshots."""
    drawn = [
        f"{figure.kind}s/{figure.name}{suffix}"
        for figure in figures().values()
        if "curve" not in figure.sources
        for suffix in FORMATS[figure.kind]
    ]
    return [*drawn, f"model/{CARD}"]


def _snakemake(path: Path, cores: str, targets: list[str]) -> None:
    options = ["--cores", cores, "--configfile", str(path), "--rerun-triggers", "mtime"]
    done = subprocess.run([sys.executable, "-m", "snakemake", *options, "--", *targets], cwd=ROOT)
    if done.returncode:
        raise Stop(f"snakemake has failed: {' '.join(targets[:1])}")
