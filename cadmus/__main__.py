"""``python -m cadmus``, which is how the ranks of a training are started."""

from cadmus.cli.main import main

main()
