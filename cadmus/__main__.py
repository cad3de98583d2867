"""``python -m cadmus``."""

from cadmus.cli.main import main

main()
