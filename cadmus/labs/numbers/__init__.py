"""Numbers: labels of numbers that are never compared, and answers that depend on what the labels read."""
