"""``python -m cadmus``, which also starts the ranks of a training, and the command ``cadmus``."""

from cadmus.cli.main import main

if __name__ == "__main__":
    main()
