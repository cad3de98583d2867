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
"""Training programs and validation accuracy of each sub-problem."""

GPT5_ACCURACY = 0.95
"""Accuracy of GPT-5 on the in-distribution comparison grid, normal symbols."""
GPT5_OUTPUT_TOKENS = 2_000
"""Its maximum number of output tokens."""
