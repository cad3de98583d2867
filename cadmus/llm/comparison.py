"""A comparison with large language models: its models, its requests and the replies so far."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

import polars as pl

from cadmus.config import Config
from cadmus.errors import InputError, reading, suggest
from cadmus.llm.costs import Cost, cost
from cadmus.llm.models import MODELS, read_models
from cadmus.llm.replies import Replies, take_results
from cadmus.llm.requests import Request, read_index, read_requests

FROM_FILE = "file"
"""The server of replies that were read from a file."""


class Comparison:
    """The models that a config names, their requests and their replies.

    Attributes:
        config: the config of the run.
        models, names: the language models and their names.
        directory: the directory of requests and replies.
        again: ask again for replies that have no known shape.

    Raises:
        InputError: the config names no model, or one that the table lacks.
    """

    again = False

    def __init__(self, config: Config, directory: Path | None = None, table: Path | None = None) -> None:
        if not config.llm.models:
            raise InputError("llm.models: names no model; add one from config/tables/llms.yaml")
        self.config = config
        self.models = read_models(table or MODELS, config.llm.models)
        self.names = [model.name for model in self.models]
        self.directory = directory or Path("results", config.name, "llm")

    @cached_property
    def index(self) -> pl.DataFrame:
        """The index of the prepared requests; see :func:`cadmus.llm.requests.read_index`."""
        return read_index(self.config, self.models, self.directory / "requests")

    @cached_property
    def requests(self) -> dict[str, dict[str, Request]]:
        """The prepared requests of each model, by key."""
        found: dict[str, dict[str, Request]] = {name: {} for name in self.names}
        for request in read_requests(self.index, self.directory / "requests"):
            found[request.model][request.key] = request
        return found

    @cached_property
    def replies(self) -> dict[str, Replies]:
        """The ledger of each model."""
        return {name: Replies(self.directory / "replies" / f"{name}.jsonl") for name in self.names}

    @contextmanager
    def writing(self, names: Sequence[str]) -> Iterator[None]:
        """Lock the ledgers of some models and open them for appending.

        Raises:
            InputError: no requests are prepared, or another process has locked a ledger.
        """
        # Read before a ledger is created.
        _ = self.index
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(self.replies[name].writing())
            yield

    def chosen(self, only: Sequence[str]) -> list[str]:
        """Return the names in ``only``, or all if it is empty.

        Raises:
            InputError: the config does not name one of them.
        """
        for name in only:
            if name not in self.names:
                raise InputError(f"--model {name}: not in llm.models; {suggest(name, self.names)}")
        return list(dict.fromkeys(only)) or self.names

    def to_send(self, name: str) -> list[Request]:
        """Return the requests of a model that are neither settled nor in a batch under way."""
        replies, requests = self.replies[name], self.requests[name]
        awaited = replies.awaited
        again = replies.malformed(requests) if self.again else set()
        return [
            request
            for key, request in requests.items()
            if key not in awaited and (key in again or not replies.settles(key))
        ]

    def costs(self) -> dict[str, Cost]:
        """Return the cost of the requests of each model."""
        return {
            model.name: cost(model, self.requests[model.name], self.replies[model.name], self.again)
            for model in self.models
        }

    def check_cap(self, names: Sequence[str]) -> float:
        """Check that sending the rest of some models keeps the run within ``llm.max_cost_usd``.

        Everything that sends requests calls this first.

        Returns:
            The USD that are left for sending requests more than once.

        Raises:
            InputError: the cost could exceed it.
        """
        costs = self.costs()
        spent = sum(found.spent_usd + found.awaited_usd for found in costs.values())
        more = sum(costs[name].to_send_usd for name in names)
        cap = self.config.llm.max_cost_usd
        if more and spent + more > cap:
            raise InputError(
                f"llm.max_cost_usd: {cap:g} USD may not be enough: {spent:.2f} USD are spent or under way, "
                f"the rest may cost {more:.2f} USD; raise it to {spent + more + 0.005:.2f} or ask for less "
                "(`cadmus llm estimate` lists the costs); nothing was sent"
            )
        return cap - spent - more

    def check_server(self, name: str, server: str) -> None:
        """Check that all replies of a model come from one server.

        Raises:
            InputError: there are replies of another one.
        """
        others = self.replies[name].servers - {server, FROM_FILE}
        if others:
            raise InputError(
                f"{self.replies[name].path}: has replies of {', '.join(sorted(others))}, not {server}; move "
                "the file away, or give this server's model another name; nothing was sent"
            )

    def take_file(self, file: Path, names: Sequence[str]) -> Counter[str]:
        """Store the replies to some models from a file that ``vllm run-batch`` or a batch wrote.

        Returns:
            Numbers of lines of each kind; see :func:`cadmus.llm.replies.take_results`.

        Raises:
            InputError: the file cannot be read, or answers none of their requests.
        """
        with reading(file):
            text = file.read_text(encoding="utf-8")
        requests = {key: request for name in names for key, request in self.requests[name].items()}
        lines, named = take_results(text, requests, self.replies, FROM_FILE)
        if not named:
            raise InputError(
                f"{file}: no line answers a request of this run; check the config, and whether the requests "
                "were prepared again since"
            )
        return lines
