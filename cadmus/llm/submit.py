"""Submission of a comparison: checks first, then batches, then single requests."""

from collections.abc import Callable, Sequence

from cadmus.llm import batches, direct
from cadmus.llm.client import address, check_models, connect
from cadmus.llm.comparison import Comparison


def submit(comparison: Comparison, only: Sequence[str] = (), echo: Callable[[str], object] = print) -> None:
    """Send all requests that are neither settled nor under way, by each model's transport.

    With ``comparison.again``, also those whose reply has no known shape.

    Args:
        comparison: a comparison with prepared requests.
        only: names of models; all if empty.
        echo: prints a line of progress.

    Raises:
        InputError: the cost cap, the key, the server or a model forbids it, and nothing was sent; or some
            requests are left without an answer.
    """
    chosen = comparison.chosen(only)
    with connect() as client, comparison.writing(chosen):
        comparison.check_cap(chosen)
        counts = {name: len(comparison.to_send(name)) for name in chosen}
        models = [model for model in comparison.models if counts.get(model.name)]
        if not models:
            echo("nothing is left to send")
            return
        server = address(client)
        for model in models:
            comparison.check_server(model.name, server)
        check_models(client, {model.model for model in models})
        echo(f"sending {sum(counts.values()):,} requests to {server}")
        for model in models:
            if model.transport == "batch":
                for batch in batches.submit(client, comparison, model.name):
                    echo(f"{model.name}: batch {batch}")
        if names := [model.name for model in models if model.transport == "direct"]:
            direct.send(comparison, names, echo)
