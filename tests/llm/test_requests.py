import polars as pl
import pytest

from cadmus.dataset.splits import TEST, split_of
from cadmus.evaluate.comparisons import grid_programs
from cadmus.llm.prompt import SYMBOLS, prompt
from cadmus.llm.requests import key_of
from cadmus.programs import Programs
from cadmus.vm import reference
from tests.llm.runs import PAIRS, VALUES


def test_programs_match_the_grid(make_run):
    run = make_run("chat", programs_per_pair=2, grid_programs_per_pair=2)
    comparison = run.comparison()
    x, y, programs, pair = grid_programs(comparison.config)
    inside = {(x, y): program for x, y, program in comparison.index.select("x", "y", "program").iter_rows()}
    assert len(inside) == PAIRS
    theirs = set(comparison.index["program"])
    assert theirs == {
        program
        for program, row in zip(programs.to_strings(), pair, strict=True)
        if max(abs(x[row]), abs(y[row])) <= VALUES
    }
    assert (split_of(Programs.from_strings(sorted(theirs)), 0.05) == TEST).all()
    assert all(reference.run(program).true for program in sorted(theirs)[:50])


def test_request_bodies(make_run):
    run = make_run("chat", "effort", "responses", "plain", "batch")
    first = {name: run.requests(name)[0] for name in run.llm["models"]}
    for line in first.values():
        assert line["custom_id"] == key_of(line["url"], line["body"])
        assert line["method"] == "POST"
        assert line["body"]["model"] == "gpt-test"
    text = first["chat"]["body"]["messages"][0]["content"]
    assert first["chat"]["body"] == {
        "model": "gpt-test",
        "messages": [{"role": "user", "content": text}],
        "max_completion_tokens": 64,
    }
    assert first["effort"]["body"] == {**first["chat"]["body"], "reasoning_effort": "low"}
    assert first["responses"]["body"] == {"model": "gpt-test", "input": text, "max_output_tokens": 64}
    assert first["batch"]["body"] == {**first["responses"]["body"], "reasoning": {"effort": "high"}}
    program = run.comparison().index["program"][0]
    assert text == prompt(program[:-1], "normal")
    assert first["plain"]["body"] == {
        "model": "gpt-test",
        "prompt": program[:-1],
        "max_tokens": 64,
        "temperature": 0,
    }
    assert len(run.requests("plain")) == PAIRS
    assert len(run.requests("chat")) == 2 * PAIRS


def test_prepare_is_reproducible(make_run):
    run = make_run("chat", "batch")
    files = {path: path.read_bytes() for path in (run.directory / "llm/requests").glob("*.jsonl")}
    run.step("prepare")
    assert files == {path: path.read_bytes() for path in (run.directory / "llm/requests").glob("*.jsonl")}
    run.configure(models=["chat"])
    run.step("prepare")
    assert [path.name for path in (run.directory / "llm/requests").glob("*.jsonl")] == ["chat.jsonl"]


def test_conditions(make_run):
    run = make_run("chat", max_output_tokens=[32, 128], grid_max_output_tokens=64, grid_programs_per_pair=2)
    counts = run.comparison().index.group_by("symbols", "max_output_tokens", "in_grid").len()
    assert set(counts.iter_rows()) == {
        (symbols, limit, limit == 64, PAIRS * (2 if limit == 64 else 1))
        for symbols in SYMBOLS
        for limit in (32, 64, 128)
    }


def test_outdated_requests(make_run):
    run = make_run("chat", prepared=False)
    assert "no requests are prepared there; run `cadmus llm prepare`" in run.refused("estimate")
    run.step("prepare")
    run.configure(max_cost_usd=7)
    run.step("estimate")
    run.configure(max_output_tokens=[128])
    assert "prepared from another config" in run.refused("estimate")
    run.step("prepare")
    lines = (run.directory / "llm/requests/chat.jsonl").read_text()
    (run.directory / "llm/requests/chat.jsonl").write_text(lines.replace("Answer with", "Guess", 1))
    assert "chat.jsonl: missing or changed" in run.refused("submit")


def test_prepare_leaves_other_files_alone(make_run):
    run = make_run("chat", "batch")
    folder = run.directory / "llm/requests"
    texts = {
        "notes.jsonl": "mine",
        "stranger.jsonl": "mine",
        "copy.jsonl": (folder / "chat.jsonl").read_text(),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    # Written by prepare, then changed.
    changed = (folder / "batch.jsonl").read_text() + '{"mine": true}\n'
    (folder / "batch.jsonl").write_text(changed)
    run.configure(models=["chat"])
    run.step("prepare")
    assert {name: (folder / name).read_text() for name in texts} == texts
    assert (folder / "batch.jsonl").read_text() == changed
    run.configure(models=["chat", "stranger"])
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert "stranger.jsonl: was not written by `cadmus llm prepare`; move it away" in run.refused("prepare")
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "text", ["[]", "5", "{}", '{"url": 3, "body": {}}', '{"url": "x", "body": []}', "[" * 100_000, "\ud800"]
)
def test_damaged_requests(make_run, text):
    run = make_run("chat")
    path = run.directory / "llm/requests/chat.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    for step in (["estimate"], ["submit"], ["score", "--output", run.directory / "answers.parquet"]):
        assert "chat.jsonl: missing or changed; run `cadmus llm prepare`" in run.refused(*step)


def test_a_changed_index_is_prepared_again(make_run):
    run = make_run("chat")
    path = run.directory / "llm/requests/index.parquet"
    pl.read_parquet(path).drop("x").write_parquet(path)
    for step in (["estimate"], ["score", "--output", run.directory / "answers.parquet"]):
        assert "index.parquet: not sealed" in run.refused(*step)
    path.write_bytes(path.read_bytes()[:50])
    assert "run `cadmus llm prepare`" in run.refused("estimate")
