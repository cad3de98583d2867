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
"""Validation accuracy of each sub-problem. We compare it with *solved* alone; the paper does not say what it
counts, which may be more."""

GRID = {"inside": 1.0, "diagonal": 0.46}
"""Accuracy of the paper's model by region of the grid: in distribution (abstract), and the mean out of it
(section "Comparing Different Program Producing the Same Values")."""
