"""Large language models on comparisons whose operators do not give the answer away, in several alphabets."""
