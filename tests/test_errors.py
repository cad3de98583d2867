"""Messages of errors."""

from cadmus.errors import InputError, near_path


def test_a_message_is_one_printable_line_of_bounded_length():
    message = str(InputError("a.yaml: no\n  name \x1b" + "x" * 100_000 + "; write it again"))
    assert message.startswith("a.yaml: no name \\x1bxxx")
    assert message.endswith("xxx; write it again")
    assert len(message) < 1_300


def test_a_misspelt_path_has_a_hint(tmp_path, monkeypatch):
    (tmp_path / "results/quick/model").mkdir(parents=True)
    (tmp_path / "results/quick/model/generation_config.json").touch()
    monkeypatch.chdir(tmp_path)
    assert near_path("results/quik/model") == "; did you mean 'results/quick/model'?"
    assert near_path("reslts/quick/modle") == "; did you mean 'results/quick/model'?"
    assert near_path(tmp_path / "reslts") == f"; did you mean '{tmp_path / 'results'}'?"
    for path in ("results/laptop", "nowhere/quick/model", "results/quick/model/config.json", "\0", "x" * 300):
        assert near_path(path) == ""
