"""The metrics file."""

import shutil

import pytest

from cadmus.errors import InputError
from cadmus.train.metrics import MetricsFile
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
    with pytest.raises(InputError, match=r"metrics\.jsonl: .*delete the checkpoints to start again"):
        MetricsFile(path, 2)
    assert path.read_text() == content
