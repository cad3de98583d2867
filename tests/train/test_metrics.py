"""The metrics file."""

import shutil

import pytest

from cadmus.errors import RankLocalError
from cadmus.train.metrics import metrics_writer
from tests.train.runs import metrics, run_config, train


def test_the_lines_after_the_checkpoint_are_dropped(tmp_path):
    assert train(tmp_path, run_config()) == 0
    shutil.rmtree(tmp_path / "checkpoints" / "step-00000010")
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:6]) + '{"step": 7, "lo')
    assert train(tmp_path, run_config()) == 0
    assert [record["step"] for record in metrics(tmp_path)] == list(range(1, 11))


@pytest.mark.parametrize(
    "content", ["", "\0" * 1000, '{"step": 2}\n', '{"step": 1}\n{"st', '{"step": 1}\n' * 2]
)
def test_a_file_without_the_steps_before_the_checkpoint_is_named(tmp_path, content):
    path = tmp_path / "metrics.jsonl"
    path.write_text(content)
    expected = pytest.raises(RankLocalError, match=r"metrics\.jsonl: damaged: must have .* 1 to 2 before")
    with expected, metrics_writer(path, 2, True):
        pass
    assert path.read_text() == content


def test_a_file_of_another_kind_is_not_overwritten(tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(b"\x89PNG\xff")
    with pytest.raises(RankLocalError, match=r"photo\.png: not UTF-8; choose"), metrics_writer(path, 0, True):
        pass
    assert path.read_bytes() == b"\x89PNG\xff"


def test_deep_lines_are_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n' + "[" * 100_000 + "\n")
    with metrics_writer(path, 1, True) as write:
        write({"step": 2})
    assert [record["step"] for record in metrics(tmp_path)] == [1, 2]


def test_two_trainings_cannot_share_a_file(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with metrics_writer(path, 0, True) as write:
        write({"step": 1})
        with (
            pytest.raises(RankLocalError, match="another training"),
            metrics_writer(path, 0, True),
        ):
            pass
        write({"step": 2})
    assert [record["step"] for record in metrics(tmp_path)] == [1, 2]
