"""Documents written from code and results: manuals, references, cards, the README's numbers."""
