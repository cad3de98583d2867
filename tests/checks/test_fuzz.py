"""``cadmus fuzz``: differences between the VMs are found and shrunk."""

import pytest
from click.testing import CliRunner

from cadmus.checks import fuzz
from cadmus.cli.fuzz import fuzz as command
from cadmus.errors import Defect, Interrupted
from cadmus.vm import reference


def plant(monkeypatch, symbol: str) -> None:
    """Let one instruction of the reference VM return NAN."""
    outputs = reference._EFFECTS[symbol][1]
    monkeypatch.setitem(reference._OPERATIONS, symbol, lambda *inputs: (reference.NAN,) * outputs)


def agree(program: str) -> bool:
    return [reference.run(program)] == fuzz.run_compiled([program])


def test_the_vms_agree_and_every_program_is_counted() -> None:
    counted: list[int] = []
    assert fuzz.fuzz(3_000, 7, 1, counted.append) is None
    assert counted == [3_000]


def test_a_run_resumes_at_its_chunk(monkeypatch) -> None:
    tried: list[tuple[int, int, int]] = []
    monkeypatch.setattr(fuzz, "_try_chunk", tried.append)
    assert fuzz.fuzz(2 * fuzz.CHUNK + 10, 7, 1, lambda count: None) is None
    assert fuzz.fuzz(fuzz.CHUNK + 10, 7, 1, lambda count: None, 1) is None
    assert tried[:3] == [(7, 0, fuzz.CHUNK), (7, 1, fuzz.CHUNK), (7, 2, 10)]
    assert tried[3:] == tried[1:3]


def test_command_prints_its_progress_without_a_terminal(monkeypatch) -> None:
    from cadmus.cli import fuzz as cli

    monkeypatch.setattr(cli, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(fuzz, "_try_chunk", lambda task: None)
    arguments = ["--programs", "120000", "--first-chunk", "4", "--jobs", "1"]
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert "50,000 of 120,000 programs; --first-chunk 5 --programs 70000 does the rest" in result.stderr
    assert "the VMs agree on 120,000 programs" in result.stdout


def test_seed_and_chunk_determine_the_programs() -> None:
    programs = fuzz.programs_of(1, 0)
    assert len(programs) == fuzz.CHUNK
    assert programs == fuzz.programs_of(1, 0)
    assert len(set(programs) & set(fuzz.programs_of(1, 1))) < fuzz.CHUNK / 4
    assert len(set(programs) & set(fuzz.programs_of(2, 0))) < fuzz.CHUNK / 4


@pytest.mark.parametrize("symbol", ["n", "V", "o", '"'])
def test_a_planted_difference_is_found_and_shrunk(monkeypatch, symbol: str) -> None:
    plant(monkeypatch, symbol)
    found = fuzz.fuzz(fuzz.CHUNK, 0, 1, lambda count: None)
    assert found.chunk == 0
    assert found.program in fuzz.programs_of(0, 0)
    assert symbol in found.shortest
    assert not agree(found.program)
    assert found.reference != found.compiled
    assert len(found.shortest) <= 4
    for place in range(len(found.shortest)):
        assert agree(found.shortest[:place] + found.shortest[place + 1 :])


def test_a_planted_difference_of_verdicts_alone_is_found(monkeypatch) -> None:
    verdicts = fuzz.compiled.verdicts
    monkeypatch.setattr(fuzz.compiled, "verdicts", lambda batch: ~verdicts(batch))
    assert fuzz.fuzz(100, 0, 1, lambda count: None).shortest == ""


def test_the_first_chunk_with_a_disagreement_is_named(monkeypatch) -> None:
    programs_of = fuzz.programs_of
    monkeypatch.setattr(fuzz, "CHUNK", 500)
    monkeypatch.setattr(
        fuzz, "programs_of", lambda seed, chunk: ["5V_"] if chunk == 2 else programs_of(seed, 1)
    )
    counted: list[int] = []
    verdicts = fuzz.compiled.verdicts
    monkeypatch.setattr(
        fuzz.compiled, "verdicts", lambda batch: verdicts(batch) | (batch.to_strings() == ["5V_"])
    )
    found = fuzz.fuzz(2_000, 0, 1, counted.append)
    assert (found.chunk, found.program, counted) == (2, "5V_", [500, 500])


def test_a_vm_that_raises_is_a_defect_that_names_the_chunk(monkeypatch) -> None:
    monkeypatch.setattr(reference, "run", lambda program: 1 / 0)
    with pytest.raises(Defect, match="chunk 0 of seed 3"):
        fuzz.fuzz(10, 3, 1, lambda count: None)


def test_shrinking_keeps_only_what_fails() -> None:
    assert fuzz.shrink("0123456789" * 5, lambda program: "3" in program and "8" in program) in ("38", "83")
    assert fuzz.shrink("5", lambda program: True) == ""


def test_command_prints_count_and_speed() -> None:
    arguments = ["--programs", str(fuzz.CHUNK + 1), "--jobs", "2"]
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert f"the VMs agree on {fuzz.CHUNK + 1:,} programs of seed 0" in result.stdout
    assert "programs/s with 2 processes" in result.stdout


def test_command_prints_a_disagreement_and_exits_with_1(monkeypatch) -> None:
    plant(monkeypatch, "+")
    result = CliRunner().invoke(command, ["--programs", "5000", "--seed", "4", "--jobs", "1"])
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "disagree on a program of chunk 0 of seed 4" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["program", "shortest", "reference", "compiled"]
    assert lines[3].split()[1:] == ["NAN,", "false"]


def test_command_prints_how_to_resume_when_interrupted(monkeypatch) -> None:
    def interrupted(programs, seed, jobs, done, first_chunk):
        done(700)
        raise KeyboardInterrupt

    monkeypatch.setattr(fuzz, "fuzz", interrupted)
    said = "interrupted after 700 of 5,000 programs; --first-chunk 0 --programs 5000 does"
    with pytest.raises(Interrupted, match=said):
        CliRunner().invoke(command, ["--programs", "5000", "--jobs", "1"], catch_exceptions=False)
