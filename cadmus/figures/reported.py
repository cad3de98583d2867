"""Results reported in the paper, for comparison with ours."""

TABLE3: dict[str, tuple[int, float]] = {
    "basic_math": (10_000_000, 1.0),
    "equality": (10_000_000, 1.0),
    "less_greater": (10_000_000, 1.0),
    "subroutines": (10_000_000, 1.0),
    "random": (200_000, 0.92),
    "basic_sequences": (10_000_000, 1.0),
    "advanced_sequences": (5_000_000, 1.0),
    "apply_labels": (10_000_000, 1.0),
    "complete_algorithm": (15_000_000, 0.96),
}
"""Training programs and validation accuracy of each sub-problem.

The paper does not say what its accuracies count. We compare them with *solved*, and with nothing else; the
paper's count may be more lenient.
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
