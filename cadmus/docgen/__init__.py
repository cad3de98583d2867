"""Documents generated from code and results: references and the README's results."""
