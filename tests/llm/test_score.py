from cadmus.llm.outcomes import OUTCOMES
from tests.llm.runs import PAIRS, outcomes


def test_unparsed_answers(make_run, start_server):
    start_server(answer=lambda body: "The answer is <")
    run = make_run("chat", symbols=["normal"])
    run.step("submit")
    answers = run.score()
    assert outcomes(answers)["unparsed"] == len(answers) == PAIRS
    assert set(answers["completion"]) == {"The answer is <"}


def test_score_before_submission(make_run):
    run = make_run("chat")
    assert outcomes(run.score()) == {**dict.fromkeys(OUTCOMES, 0), "unanswered": 2 * PAIRS}
    assert "not run" in run.step("score", "--output", run.directory / "answers.parquet")
