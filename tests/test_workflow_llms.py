"""Language models in the workflow, in a copy of the checkout: a local server answers."""

import polars as pl
import yaml

from tests.checkout import copy_checkout, snakemake
from tests.llm.server import LlmServer
from tests.llm.solver import errs, solve


def test_llms_run_with_a_key_and_are_marked_as_not_run_without_it(tmp_path):
    checkout = copy_checkout(tmp_path)
    results = checkout / "results/tiny"
    fields = "alphabets: [letters], programs: 12, grid: false, max_output_tokens: [64]"
    scored = "experiments/llm.parquet"
    llm = ("--config", f"llm={{models: [test], {fields}}}", "--", f"results/tiny/{scored}")

    def outcomes():
        return dict(pl.read_parquet(results / scored)["outcome"].value_counts().iter_rows())

    with LlmServer(solve) as server:
        row = {"model": "openai-api/local/test", "base_url": server.url, "key": "TEST_API_KEY"}
        (checkout / "config/tables/llms.yaml").write_text(yaml.safe_dump({"test": row}))
        done = snakemake(checkout, *llm)
        assert done.returncode == 0, done.stdout + done.stderr
        assert outcomes() == {"unanswered": 12}
        assert not (results / "llm/replies").exists()
        done = snakemake(checkout, *llm, TEST_API_KEY="sk-of-the-workflow")
        assert done.returncode == 0, done.stdout + done.stderr
        again = snakemake(checkout, *llm, TEST_API_KEY="sk-of-the-workflow")
        assert "Nothing to be done" in again.stdout + again.stderr
        assert set(server.asked.values()) == {1}
    answered = outcomes()
    assert (sum(answered.values()), "unanswered" in answered) == (12, False)
    assert answered.get("wrong", 0) == sum(errs(text) for text in server.asked)
    folders = (results, checkout / ".snakemake")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if b"sk-of-the-workflow" in path.read_bytes()]
    # Without the key nothing is sent, and the replies are kept.
    done = snakemake(checkout, *llm)
    assert done.returncode == 0, done.stdout + done.stderr
    assert outcomes() == answered
