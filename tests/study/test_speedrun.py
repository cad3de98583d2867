"""The speed record."""

import json

import polars as pl
import pytest
from click.testing import CliRunner

from cadmus.cli.study import study as command
from cadmus.errors import InputError
from cadmus.study.results import COLUMNS
from cadmus.study.speedrun import PAGE, QUESTIONS, RECORDS, add_record


def results(directory, accuracy=0.98, seeds=3, variants=("record",), questions=QUESTIONS):
    rows = [
        {
            "study": "speedrun",
            "variant": variant,
            "seed": seed,
            "experiment": "completions",
            "template": question,
            "metric": "next_token",
            "value": accuracy + 0.001 * seed,
            "n": 2000,
            "baseline": 0.5,
            "flops": 5e13 + seed,
            "seconds": 600.0,
            "parameters": 100,
            "programs": 1_000,
            "directory": f"{seed}",
            "config_digest": "0",
        }
        for variant in variants
        for seed in range(seeds)
        for question in (*questions, "random")
    ]
    described = {
        "name": "speedrun",
        "question": "",
        "base": "record",
        "compare": ["next_token"],
        "factors": [],
        "law_flops": [],
        "missing": [],
    }
    path = directory / "study.parquet"
    metadata = {"study": json.dumps(described), "commit": "0123456789abcdef"}
    pl.DataFrame(rows, COLUMNS).write_parquet(path, metadata=metadata)
    return path


def test_records_are_rows_of_a_table(tmp_path):
    row = add_record(results(tmp_path), "first", tmp_path)
    assert row["next_token"] == pytest.approx(0.981)
    # Over seeds alone, the half-width would be 0.0025.
    assert row["high"] - 0.981 == pytest.approx(0.0035, abs=1e-4)
    assert 0.981 - row["low"] == pytest.approx(0.0035, abs=1e-4)
    assert row["flops"] == 5e13 + 1
    assert row["reached"]
    assert not add_record(results(tmp_path, 0.9), "worse | narrower", tmp_path)["reached"]
    records = pl.read_csv(tmp_path / RECORDS)
    assert records["reached"].to_list() == [True, False]
    assert records["less_greater"].to_list() == pytest.approx([0.981, 0.901])
    page = (tmp_path / PAGE).read_text()
    assert "| 0123456 | first | 3 | 5e+13 | 10 | 98.1% [" in page
    assert "] | 50.0% | reached |" in page
    assert "| 0123456 | " + " | ".join(["98.1"] * 8) + " |" in page
    assert "worse \\| narrower" in page
    assert page.count("missed") == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"variants": ("a", "b")}, "a record has one variant"),
        ({"seeds": 2}, "next_token of 8 questions for at least 3 seeds"),
        ({"questions": QUESTIONS[1:]}, "next_token of 8 questions for at least 3 seeds"),
    ],
)
def test_what_is_no_record_is_one_line(tmp_path, fields, message):
    with pytest.raises(InputError, match=message):
        add_record(results(tmp_path, **fields), "none", tmp_path)
    assert not (tmp_path / PAGE).exists()


@pytest.mark.parametrize("damage", ["", "date,commit\n1,2\n", "\xff", "date,commit,change\n"])
def test_damaged_records_are_one_line_and_stay(tmp_path, damage):
    path = tmp_path / RECORDS
    path.parent.mkdir(parents=True)
    path.write_text(damage, encoding="latin-1")
    with pytest.raises(InputError, match=r"speedrun\.csv"):
        add_record(results(tmp_path), "first", tmp_path)
    assert path.read_text(encoding="latin-1") == damage
    assert not (tmp_path / PAGE).exists()


def test_the_command(tmp_path):
    arguments = ["record", str(results(tmp_path)), "--change", "first", "--root", str(tmp_path)]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.output.startswith("next token 98.1% [")
    assert done.output.endswith("], target 97% reached, 5e+13 FLOPs\n")
