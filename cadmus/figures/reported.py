"""Results reported in the paper, for comparison with ours."""

TABLE3 = {
    "basic_math": 1.0,
    "equality": 1.0,
    "less_greater": 1.0,
    "subroutines": 1.0,
    "random": 0.92,
    "basic_sequences": 1.0,
    "advanced_sequences": 1.0,
    "apply_labels": 1.0,
    "complete_algorithm": 0.96,
}
"""Validation accuracy of each sub-problem.

The paper does not say what it counts. We compare with *solved*, and with nothing else; the paper's count may
be more lenient.
"""

GPT5_ACCURACY = 0.95
"""Accuracy of GPT-5 on the in-distribution comparison grid, normal symbols."""
GPT5_OUTPUT_TOKENS = 2_000
"""Its maximum number of output tokens."""

GRID = {"inside": 1.0, "diagonal": 0.46}
"""Accuracy of the paper's model by region of the comparison grid.

Inside is in distribution (abstract); the diagonal is the mean out of distribution (section "Comparing
Different Program Producing the Same Values").
"""
