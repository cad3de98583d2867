"""``python -m cadmus``, which also starts the ranks of a training, and the command ``cadmus``."""

# The module signal imports enum first.
import _signal  # type: ignore[import-not-found]

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    # Until `main` handles it, Ctrl-C ends the process without a traceback.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from cadmus.common import interrupts


def main() -> None:
    """Run the command line; signals are handled before its modules are imported."""
    interrupts.install()
    from cadmus.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
