"""The next writer removes the temporary files of killed ones, and no others."""

import os
import signal
import subprocess
import sys
import time

import pytest

from cadmus.common import leftovers
from cadmus.common.files import replacing, replacing_directory
from tests.checkout import ROOT, environment_of

WRITER = """
import sys, time
from pathlib import Path
from cadmus.common import files
with getattr(files, sys.argv[1])(Path(sys.argv[2])) as temporary:
    print(temporary, flush=True)
    time.sleep(1000)
"""


def start_writer(function, path):
    command = [sys.executable, "-c", WRITER, function, str(path)]
    process = subprocess.Popen(command, cwd=ROOT, env=environment_of(ROOT), stdout=subprocess.PIPE, text=True)
    temporary = process.stdout.readline().strip()
    process.stdout.close()
    return process, temporary


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("function", ["replacing", "replacing_directory"])
def test_only_ended_writers_lose_their_file(tmp_path, function):
    path = tmp_path / "figure.png"
    write = {"replacing": replacing, "replacing_directory": replacing_directory}[function]
    killed, _ = start_writer(function, path)
    other, kept = start_writer(function, tmp_path / "figure.pdf")
    writing, at_work = start_writer(function, path)
    for process in (killed, other):
        kill(process)
    assert len(list(tmp_path.iterdir())) == 3
    try:
        with write(path):
            pass
        assert {str(found) for found in tmp_path.iterdir()} == {str(path), kept, at_work}
    finally:
        kill(writing)
    with write(path):
        pass
    assert {str(found) for found in tmp_path.iterdir()} == {str(path), kept}


def test_another_process_with_the_same_number_has_ended(tmp_path):
    path = tmp_path / "a.csv"
    name = leftovers.temporary_path(path).name.split("-")
    (tmp_path / "-".join([*name[:2], "7", *name[3:]])).touch()
    leftovers.remove_leftovers(path)
    assert not list(tmp_path.iterdir())


def test_files_of_another_machine_stay_for_a_week(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    with monkeypatch.context() as patch:
        patch.setattr(leftovers, "_machine", lambda: "0123456789ab")
        temporary = leftovers.temporary_path(path)
    temporary.touch()
    leftovers.remove_leftovers(path)
    assert temporary.exists()
    week_ago = time.time() - leftovers.WEEK - 60
    os.utime(temporary, (week_ago, week_ago))
    leftovers.remove_leftovers(path)
    assert not temporary.exists()


def test_files_of_the_user_stay(tmp_path):
    path = tmp_path / "a.csv"
    names = {".a.csv.bak.csv", ".a.csv.swp", ".a.csv.0123456789ab-1-1.csv", "a.csv"}
    for name in names:
        (tmp_path / name).touch()
    leftovers.remove_leftovers(path)
    assert {found.name for found in tmp_path.iterdir()} == names


def test_an_export_comes_back_if_a_writer_fails_to_replace_it(tmp_path, monkeypatch):
    path = tmp_path / "model"
    with replacing_directory(path) as temporary:
        (temporary / "old").touch()

    def replace() -> None:
        with replacing_directory(path) as temporary:
            temporary.rmdir()

    with pytest.raises(Exception, match="No such file"):
        replace()
    assert [found.name for found in tmp_path.rglob("*")] == ["model", "old"]
