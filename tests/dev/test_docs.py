"""The generated parts of the documents are current, and are written from results."""

import json
import re
import shutil
from pathlib import Path

import jsonschema
import polars as pl
import pytest

from cadmus import experiments, store
from cadmus.config import load_config
from cadmus.config.study import load_study
from cadmus.dataset.shards import SCHEMA
from cadmus.plan import plan
from cadmus.study.results import TABLE
from dev.docs import BEGIN, END, with_generated
from dev.docs.config import documents
from dev.docs.entries import FOLDER, add_entry, means, scoring
from dev.docs.readme import FILES, FIRST, LARGE, TABLES, publish, with_results
from dev.docs.speedrun import COLUMNS as RECORD
from dev.docs.speedrun import PAGE, QUESTIONS, RECORDS, add_record, folder_of, tables
from tests.checkout import ROOT
from tests.figures import test_figures as samples
from tests.study.exports import write_metadata

RUN = load_config(ROOT / "tests/tiny.yaml")


def test_configs_are_described() -> None:
    for path, text in documents(ROOT).items():
        assert path.read_text() == text, f"{path.name} is out of date: run `python -m dev.docs config`"


def test_the_page_of_columns_is_that_of_the_tables() -> None:
    page = (ROOT / "docs/columns.md").read_text(encoding="utf-8")
    tables = {name: experiments.table(name).columns for name in experiments.NAMES} | {"study": TABLE.columns}
    names = {str: "text", int: "integer", float: "number", bool: "true or false"}
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert len(sections) >= 9
    # A lab may be absent, and your own experiment need not be there.
    for name in sections.keys() & tables.keys():
        columns = re.findall(r"^\| `(\w+)` \| (.*?) \|", sections[name], re.MULTILINE)
        assert columns == [(key, names[column.type]) for key, column in tables[name].items()]
    assert re.findall(r"^\| `(\w+)` \|", sections["dataset"], re.MULTILINE) == SCHEMA.names


def test_the_results_in_the_readme_are_current() -> None:
    text = with_results(ROOT)
    assert text == (ROOT / "README.md").read_text(), "run `python -m dev.docs run results/flagship`"


@pytest.mark.parametrize("change", [{"dataset": {"shard_size": 0}}, {"train": {"steps": -1}}])
def test_the_schema_rejects_values_out_of_bounds(change) -> None:
    described = json.loads((ROOT / "workflow/schemas/config.schema.json").read_text())
    config = {"name": "a", "extends": "quick"}
    jsonschema.validate(config, described)
    with pytest.raises(jsonschema.ValidationError, match="minimum"):
        jsonschema.validate(config | change, described)


def test_a_finished_run_is_published(tmp_path) -> None:
    published, results = ROOT / "docs/models/quick", tmp_path / "results" / FIRST
    with pytest.raises(SystemExit, match="the run is not finished"):
        publish(results, tmp_path)
    for name in FILES:
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        if name.startswith("tables/"):
            shutil.copy(published / Path(name).name, results / name)
        elif Path(name).stem in LARGE and name.endswith(".csv"):
            pl.read_parquet(published / f"{Path(name).stem}.parquet").write_csv(results / name)
        else:
            (results / name).touch()
    for name in TABLES:
        (results / f"tables/{name}.md").write_text(f"| {name} |\n")
    origin = {"config_digest": "c0", "model_digest": "m0"}
    completions = results / "experiments/completions.parquet"
    store.write_parquet(completions, "results", samples.completions(), origin)
    trained = {"parameters": 7, "steps": 3, "programs": 30, "tokens": 300, "seconds": 90.0, "cores": 2}
    trained |= {"flops": 1e9, "device": "cpu", "data_digest": "d0", "config": RUN.model_dump()}
    write_metadata(results / "model", RUN, **trained)
    (tmp_path / "README.md").write_text(f"# Title\n{BEGIN}\nearlier results\n{END}\nrest\n")
    publish(results, tmp_path)
    page = (tmp_path / "docs/models" / FIRST / "README.md").read_text()
    assert f"commit `{store.commit()[:12]}`): 7 parameters, 30 programs (300 tokens) in 3 steps" in page
    assert all(f"| {name} |" in page for name in TABLES)
    text = (tmp_path / "README.md").read_text()
    assert "right (the best baseline" in text
    assert text.startswith("# Title\n")
    assert text.endswith("rest\n")
    assert "earlier results" not in text
    data = {path.name for path in (tmp_path / "docs/models" / FIRST).glob("*grid.*")}
    assert data == {"comparison_grid.png", "comparison_grid.parquet"}
    for name in ("comparison_grid.parquet", "induction.csv"):
        assert f"]({name})." in page
        assert (tmp_path / "docs/models" / FIRST / name).is_file()


def study(directory: Path, accuracy: float = 0.98, seeds: int = 3) -> Path:
    """Write the results of a study with one variant."""
    rows = [
        {
            **dict.fromkeys(("study", "variant", "experiment", "config_digest", "directory"), "a"),
            **dict.fromkeys(("n", "parameters", "programs"), 2_000),
            "seed": seed,
            "template": question,
            "metric": "next_token",
            "value": accuracy + 0.001 * seed,
            "baseline": 0.5,
            "flops": 5e13 + seed,
            "seconds": 600.0,
            "matmul_rate": 0.5e12,
        }
        for seed in range(seeds)
        for question in QUESTIONS
    ]
    described = {"name": "speedrun", "question": "", "base": "a", "compare": ["next_token"]}
    described["missing"] = []
    path = directory / "study.parquet"
    store.write_parquet(path, "study", pl.DataFrame(rows, TABLE.schema), {"study": json.dumps(described)})
    return path


def test_speed_records_are_rows_of_a_table(tmp_path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / PAGE).write_text(f"# Record\n\n{BEGIN}\n{END}\n")
    config = ROOT / "docs/records/speedrun.yaml"
    add_record(study(tmp_path), config, "first", tmp_path)
    (folder,) = (tmp_path / "docs/records").glob("*/")
    assert (folder / "config.yaml").read_bytes() == config.read_bytes()
    add_record(study(tmp_path, 0.9), config, "worse | narrower", tmp_path)
    records = pl.read_csv(tmp_path / RECORDS)
    assert records["reached"].to_list() == [True, False]
    assert records["less_greater"].to_list() == pytest.approx([0.981, 0.901])
    # Over seeds alone, the half-width would be 0.0025.
    assert records["high"][0] - 0.981 == pytest.approx(0.0035, abs=1e-4)
    page = (tmp_path / PAGE).read_text()
    assert "/config.yaml) | first | 5e+13 | 10 | 5 | 98.1% [" in page
    # 1.1 points above the target, with seeds that are 0.1 apart.
    assert "] | 98.0%, 98.1%, 98.2% (+19.1 SE) | " in page
    assert "worse \\| narrower" in page
    with pytest.raises(SystemExit, match="3 seeds"):
        add_record(study(tmp_path, seeds=2), config, "none", tmp_path)


def test_the_speed_record_starts_from_the_config_of_the_record() -> None:
    rows = pl.read_csv(ROOT / RECORDS, schema_overrides=RECORD).to_dicts()
    assert with_generated(ROOT / PAGE, tables(rows)) == (ROOT / PAGE).read_text()
    best = min((row for row in rows if row["reached"]), key=lambda row: row["flops"])
    starter = ROOT / "docs/records/speedrun.yaml"
    assert starter.read_bytes() == (ROOT / folder_of(best) / "config.yaml").read_bytes()


def test_methods_enter_a_table(tmp_path) -> None:
    columns, variables = scoring().columns, scoring().variables
    scores = pl.DataFrame({"variable": variables, "programs": range(100, 100 + len(variables))})
    scores = scores.with_columns(pl.lit(0.25).alias(column) for column in columns)
    path, page = tmp_path / "scores.parquet", tmp_path / FOLDER / "README.md"
    page.parent.mkdir(parents=True)
    page.write_text(f"# Title\n{BEGIN}\n{END}\n")
    earlier = pl.read_csv(ROOT / FOLDER / "entries.csv")
    earlier.write_csv(tmp_path / FOLDER / "entries.csv")
    scores.write_parquet(path)
    add_entry(path, "mine | A. Author", tmp_path)
    scores.with_columns(pl.lit(None, pl.Float64).alias(columns[0])).write_parquet(path)
    add_entry(path, "another", tmp_path)
    text = page.read_text()
    assert f"mine \\| A. Author | 100 | {' | '.join(['0.25'] * len(columns))} |" in text
    assert "another | 100 | – | 0.25" in text
    assert len(pl.read_csv(tmp_path / FOLDER / "entries.csv")) == len(earlier) + 2 * len(variables)
    for wrong, message in (
        (scores.drop(columns[1]), f"has no column {columns[1]}"),
        (scores[1:], "an entry has one row for each of"),
        (pl.concat([scores, scores]), "an entry has one row for each of"),
    ):
        wrong.write_parquet(path)
        with pytest.raises(SystemExit, match=message):
            add_entry(path, "wrong", tmp_path)
    scores.write_parquet(path, metadata={"model_digest": "another"})
    with pytest.raises(SystemExit, match="are of another model; entries are of models/laptop"):
        add_entry(path, "wrong", tmp_path)


def test_the_table_of_methods_is_current() -> None:
    entries, page = pl.read_csv(ROOT / FOLDER / "entries.csv"), ROOT / FOLDER / "README.md"
    assert with_generated(page, means(scoring().columns, entries)) == page.read_text()


@pytest.mark.parametrize(
    "row", pl.read_csv(ROOT / RECORDS, schema_overrides=RECORD).to_dicts(), ids=folder_of
)
def test_a_config_of_a_record_needs_its_flops(row) -> None:
    run = load_study(ROOT / folder_of(row) / "config.yaml").runs[0]
    assert plan(run.config)["flops"] == pytest.approx(row["flops"], rel=0.1)
