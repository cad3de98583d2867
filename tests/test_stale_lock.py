"""Snakemake's lock is removed only if its run was killed."""

import os
import runpy
import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest

from tests.checkout import ROOT

SLEEP = [sys.executable, "-c", "import signal; print(flush=True); signal.pause()"]


@pytest.fixture
def lock(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ".snakemake/locks/0.input.lock"
    path.parent.mkdir(parents=True)
    path.write_text("results/tiny/config.yaml\n")
    return path


def remove_stale_lock():
    runpy.run_path(str(ROOT / "workflow/scripts/remove_stale_lock.py"))


@contextmanager
def running(*words, **options):
    with subprocess.Popen([*SLEEP, *words], stdout=subprocess.PIPE, **options) as process:
        try:
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_the_lock_of_a_killed_run_is_removed(lock, capsys):
    with running("run_snakemake.log"), running("snakemake", cwd="/"):
        remove_stale_lock()
    assert not lock.exists()
    assert capsys.readouterr().out == "removing the lock of a killed run\n"


def test_the_lock_of_a_run_stays(lock, capsys, monkeypatch):
    with running("snakemake") as process:
        remove_stale_lock()
        assert f"held by process {process.pid}; if no Snakemake runs here" in capsys.readouterr().out
    with running("snakemake", cwd="/") as process, monkeypatch.context() as patch:
        patch.setattr(psutil.Process, "cwd", denied)
        remove_stale_lock()
        assert "held by process" in capsys.readouterr().out
    assert lock.exists()


def denied(process):
    raise psutil.AccessDenied(process.pid)


def test_the_lock_of_another_user_stays(lock, capsys, monkeypatch):
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    remove_stale_lock()
    assert lock.exists()
    line = f"held by user {owner}; if no Snakemake runs here, use `.venv/bin/snakemake --unlock`"
    assert capsys.readouterr().out == f".snakemake/locks: {line}\n"
