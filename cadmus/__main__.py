"""``python -m cadmus``, which also starts the ranks of a training."""

from cadmus.cli.main import main

main()
