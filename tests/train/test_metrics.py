"""The metrics file."""

import shutil

from tests.train.runs import metrics, run_config, train


def test_a_truncated_line_is_dropped(tmp_path):
    assert train(tmp_path, run_config()) == 0
    shutil.rmtree(tmp_path / "checkpoints" / "step-00000010")
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]) + '{"step": 5, "lo')
    assert train(tmp_path, run_config()) == 0
    assert [record["step"] for record in metrics(tmp_path)] == [1, 2, 3, 4, 6, 7, 8, 9, 10]
