"""A study through the workflow, started by the command line in a copy of the checkout."""

import pytest

from cadmus.config.study import load_study
from tests.checkout import FEW, copy_checkout, jobs, snakemake
from tests.forked import ADDRESS

STUDY = (
    f"name: demo\n{FEW}"
    + """\
train: {steps: 10, batch_size: 64, checkpoint_every: 10, ranks: 1}
evaluate: {completions: {programs: 50}}
study:
  question: Are more steps better?
  variants: {steps=10: {}, steps=12: {train: {steps: 12}}}
  seeds: [0]
"""
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a copy of the checkout with a finished study."""
    directory = copy_checkout(tmp_path_factory.mktemp("checkout"))
    (directory / "demo.yaml").write_text(STUDY)
    snakemake(directory, config="demo.yaml")
    return directory


def test_another_seed_runs_only_what_is_new(checkout):
    text = STUDY.replace("[0]", "[0, 1]")
    (checkout / "demo.yaml").write_text(text)
    try:
        assert jobs(checkout, config="demo.yaml") == {
            "config": 4,
            "study_config": 1,
            "train": 2,
            "experiment": 2,
            "study": 1,
        }
    finally:
        (checkout / "demo.yaml").write_text(STUDY)


def test_a_failed_run_is_named_on_the_page_and_the_others_are_compared(checkout):
    path = checkout / "failing.yaml"
    path.write_text(
        STUDY.replace("demo", "failing")
        .replace("}, steps=12: {train: {steps: 12}}}", "}}")
        .replace("[0]", "[0, 3]")
    )
    results, failing = checkout / "results", load_study(path).runs[1]
    # No directory can be made in the place of a file.
    obstacle = results / failing.training / "training/checkpoints"
    obstacle.parent.mkdir(parents=True)
    obstacle.write_text("")
    printed = snakemake(checkout, config="failing.yaml", code=1)
    assert "missing: steps=10, seed 3: train: " in printed
    assert "cadmus: the finished runs are in results/failing/partial/README.md" in printed
    page = (results / "failing/partial/README.md").read_text()
    assert "- steps=10, seed 3: train: " in page
    assert "Study failing: 1 training" in page
    obstacle.unlink()
    # In new processes, so that each command of a study starts in one.
    snakemake(checkout, config="failing.yaml", **{ADDRESS: ""})
    assert "Missing runs" not in (results / "failing/README.md").read_text()
    assert not (results / "failing/partial").exists()
