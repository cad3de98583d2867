"""``python -m cadmus``, which also starts the ranks of a training, and the command ``cadmus``."""

from cadmus.common import interrupts


def main() -> None:
    """Run the command line; signals are handled before its modules are imported."""
    interrupts.install()
    from cadmus.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
