"""Runs and results of diffusion, and what the commands tell."""

import polars as pl

from cadmus.evaluate.statistics.results import with_accuracy


def infilling() -> pl.DataFrame:
    """Return results of two questions, one without programs for the longest hole."""
    rows = [
        (question, policy, hole, 50 * tested, 40 // hole * tested)
        for question in ("equality", "random")
        for policy in ("model", "most frequent")
        for hole in (1, 2, 4, 8)
        for tested in [(question, hole) != ("random", 8)]
    ]
    names = ["question", "policy", "hole", "programs", "correct"]
    return with_accuracy(pl.DataFrame(rows, schema=names, orient="row"))


RESULTS = {"infilling": infilling}
# Templates, policies, holes.
COMMANDS = {
    "infilling": (2 * 2 * 4, 2, ["1", "2", "4", "8"]),
}
ATTENTION = {"full": "masked_diffusion"}
RUNS = {"masked": {"train": {"state_weight": 1.0}, "model": {"attention": "full"}}}
FUNCTIONS = {"infilling": "filled"}
