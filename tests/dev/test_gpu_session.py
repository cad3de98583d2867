"""The session on a rented GPU, in parts and without one; `make gpu-rehearsal` does all of it."""

import json
import sys
import time
from pathlib import Path

import pytest
import torch

from cadmus import config, pipeline
from cadmus.model.export import load_export, read_metadata
from cadmus.model.gpt import GPT
from dev.gpu_session import __main__, collecting, sampling, session, weights
from dev.measure import PATIENCE
from tests.checkout import FEW, ROOT
from tests.commands import python

MOCKED_CUDA = """
import os, torch
torch.cuda.is_available = lambda: os.environ.get("CUDA_VISIBLE_DEVICES") != ""
"""


def test_the_tests_of_a_gpu_start_where_there_is_one(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    (tmp_path / "sitecustomize.py").write_text(MOCKED_CUDA)
    done = python("-m", "pytest", "-q", "--collect-only", "tests/gpu.py", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert done.returncode == 0, done.stdout
    for name in session.CHECKS.split(" or "):
        assert name in done.stdout


def test_the_tests_of_a_gpu_pass_on_a_cpu():
    done = python("-m", "pytest", "-q", "tests/gpu.py", "-k", "shipped_model", GPU_TESTS="cpu")
    assert done.returncode == 0, done.stdout


def test_a_machine_without_a_gpu_is_one_line():
    done = python("-m", "dev.gpu_session.probe", "cuda", "facts", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1].endswith(
        "finds no GPU that it can use; is there one, and its driver new?"
    )


@pytest.fixture
def made(tmp_path) -> session.Session:
    return session.Session(tmp_path / "out", tmp_path / "work", 600, "cpu")


def log_of(folder: Path) -> list[str]:
    """Return the lines of a session's log, without the seconds."""
    return [line.partition("] ")[2] for line in (folder / "log.txt").read_text().splitlines()]


def test_a_stage_has_a_limit_and_its_output_comes_home(made):
    made.limits = {"quick": PATIENCE, "slow": 1}

    def stages():
        assert made.stage("quick", ["-c", "print('one'); print('two')"]).code == 0
        hanging = "import subprocess, sys; print('waits'); subprocess.run([sys.executable, '-c', 'input()'])"
        assert made.stage("slow", ["-u", "-c", f"{hanging}; import time; time.sleep(1000)"]).code != 0

    assert session._guarded(made, stages) == 1
    stages = json.loads((made.output / "session.json").read_text())["stages"]
    assert [(name, stage["ok"], stage["said"]) for name, stage in stages.items()] == [
        ("quick", True, "two"),
        ("slow", False, "took longer than 1 s"),
    ]
    assert "one\ntwo" in (made.output / "output.txt").read_text()
    assert "waits" in (made.output / "output.txt").read_text()


@pytest.mark.parametrize(
    ("printed", "ends"),
    [
        ("FAILED tests/gpu.py::test_losses_match_the_cpu[adam] - AssertionError", True),
        ("FAILED tests/gpu.py::test_attention_implementations_match_eager[64-fused] - AssertionError", False),
        ("ERROR tests/gpu.py - ModuleNotFoundError", False),
    ],
)
def test_only_wrong_losses_or_logits_end_a_session(made, monkeypatch, printed, ends):
    popen = made.popen
    command = ["-c", f"print({printed!r}); raise SystemExit(1)"]
    monkeypatch.setattr(made, "popen", lambda name, _, **environment: popen(name, command, **environment))
    if ends:
        with pytest.raises(session.Stop, match="computes something else"):
            session.correct(made)
    else:
        session.correct(made)
    made.close()
    assert (printed in log_of(made.output)) == printed.startswith("FAILED")


def test_a_session_that_is_killed_starts_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["session", "run", f"--work={tmp_path}", f"--output={tmp_path / 'out'}"])
    monkeypatch.setattr(session, "_start", lambda _given, work: (work / session.PRINTED).touch() or ended)
    ended = session.subprocess.Popen([sys.executable, "-c", ""])
    for _ in range(2):
        assert __main__.main() == 1
        assert "was killed; the same command starts it again" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("graphs", "first"),
    [
        ({"ms_per_step": 20.0, "loss": 1.31}, ({"cuda_graph": True}, 20.0)),
        ({"ms_per_step": 39.0, "loss": 1.31}, ({"compile": True}, 40.0)),
        ({"ms_per_step": 20.0, "loss": 1.4}, ({"compile": True}, 40.0)),
        (None, ({"compile": True}, 40.0)),
    ],
    ids=["faster", "as fast", "other losses", "failed"],
)
def test_graphs_train_if_they_are_faster_and_learn_the_same(made, graphs, first):
    rates = {"few": {"ms_per_step": 40.0, "loss": 1.3}, "few-graphs": graphs}
    made.note(rates={name: facts for name, facts in rates.items() if facts})
    made.note(stages={"correct": {"ok": True}})
    assert session._ways(made, Path("few.yaml"))[0] == first
    made.note(stages={"correct": {"ok": False}})
    assert session._ways(made, Path("few.yaml"))[0][0] == {"compile": True}


def test_parts_are_joined_to_the_latest_whole_model(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "PART_BYTES", 1000)
    sizes = config.Model(layers=1, width=8, heads=1, mlp=8, tied=True)
    made = {}
    for step in (1, 2, 3):
        torch.manual_seed(step)
        made[step] = GPT(sizes).state_dict()
        metadata = {"config": {"model": sizes.model_dump()}, "steps": step}
        kept = sorted(tmp_path.iterdir())
        weights.write_parts(made[step], metadata, tmp_path)
        # The parts of the step before are gone.
        assert not set(kept) & set(tmp_path.iterdir())
    # Of step 4, the session has brought home no more than a part.
    (tmp_path / "weights-000004-0").write_bytes((tmp_path / "weights-000003-0").read_bytes())
    joined, noted = weights.join_parts(tmp_path)
    assert noted["steps"] == 3
    for name, weight in joined.items():
        assert torch.equal(weight, made[3][name].to(torch.bfloat16))
    assert made[3].keys() - joined.keys() == {"lm_head.weight"}
    for path in tmp_path.glob("weights-*-1"):
        path.unlink()
    with pytest.raises(session.Stop, match="no weights"):
        weights.join_parts(tmp_path)


def test_a_training_that_meets_the_deadline_leaves_a_model(tmp_path, monkeypatch):
    """With the layers of state supervision left out, from its last checkpoint."""
    values = FEW + "name: few\ntrain: {steps: 5, batch_size: 32, state_weight: 1.0, ranks: 1}\n"
    path, dataset = tmp_path / "few.yaml", tmp_path / "dataset"
    (tmp_path / "base.yaml").write_text(values)
    path.write_text(json.dumps({"extends": str(tmp_path / "base.yaml"), "name": "few"}))
    sampling.main(path, dataset)
    for name, value in {"STARTING": 0, "ENDING": 0, "CHECKPOINT_SECONDS": 0.001}.items():
        monkeypatch.setattr(session, name, value)
    made = session.Session(tmp_path / "out", tmp_path / "work", 10**6, "cpu", slow=100)
    # The checkout has the VM compiled.
    del made.environment["NUMBA_CACHE_DIR"]
    steps = []

    def ended(process, seconds, each=None):
        """The deadline comes after the first steps, however long they take."""
        metrics = made.work / "metrics.partial.jsonl"
        while process.code is None and not (metrics.exists() and metrics.read_bytes().count(b"\n") > 3):
            time.sleep(0.05)
        steps.append(process.code)
        process.end()
        return False

    wait = session.Process.wait
    monkeypatch.setattr(
        session.Process, "wait", lambda self, *given: (wait if steps else ended)(self, *given)
    )
    # So many steps that the blocks are compiled: no other test compiles a training with Inductor.
    made.note(rates={"few": {"ms_per_step": 0.5}})
    session.train(made, path, dataset, None)
    made.close()
    assert steps[0] is None
    joined, noted = weights.join_parts(made.output)
    assert noted["steps"] >= 3
    assert noted["config"]["name"] == "few"
    assert noted["data_digest"] == json.loads((dataset / "manifest.json").read_text())["digest"]
    assert joined.keys() == {name for name, _ in GPT(config.load_config(path).model).named_parameters()}
    assert "stopped at the deadline; the model is its last checkpoint" in "".join(log_of(made.output))
    assert len((made.output / "metrics.jsonl").read_text().splitlines()) >= noted["steps"]
    # At home, it becomes an export of 16 bits, which is loaded in fp32.
    report = {"machine": {"cores": 2, "versions": {}}, "commit": "0123"}
    collecting._write_model(joined, noted | collecting._noted(report), tmp_path / "model")
    assert read_metadata(tmp_path / "model").weights == "bfloat16"
    for name, weight in load_export(tmp_path / "model").state_dict().items():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, joined[name].float())


def test_other_programs_than_those_of_the_session_are_refused(tmp_path):
    (tmp_path / "few.yaml").write_text(FEW + "name: few\ntrain: {steps: 5}\n")
    run = config.load_config(tmp_path / "few.yaml")
    pipeline.sample(run, tmp_path / "dataset")
    pipeline.dataset(run, tmp_path / "dataset")
    programs = sampling.program_digests(tmp_path / "dataset")
    collecting._check_programs(tmp_path / "dataset", {"programs": programs})
    programs["data/train/equality-0000.parquet"] = "0"
    with pytest.raises(session.Stop, match="the session sampled other programs"):
        collecting._check_programs(tmp_path / "dataset", {"programs": programs})
