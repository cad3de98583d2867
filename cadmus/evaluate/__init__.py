"""Grading of completions by execution, sampling of comparisons, and summaries of results."""
