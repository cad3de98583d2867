"""Documents generated from code and results: manual, references, model cards, the README's results."""
