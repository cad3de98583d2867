"""A comparison with large language models: its config and models, its requests, and their replies so far."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import polars as pl

from cadmus.config import Config
from cadmus.errors import InputError, suggest
from cadmus.llm.batches import take_lines
from cadmus.llm.costs import Cost, cost
from cadmus.llm.models import MODELS, read_models
from cadmus.llm.replies import Replies
from cadmus.llm.requests import Request, read_index, read_requests

FROM_FILE = "file"
"""Stands for the server of replies that were taken from a file."""


class Comparison:
    """What the steps of a comparison share.

    Attributes:
        config: of the run.
        models: that it asks, and their names.
        requests: the directory of what is prepared.

    After :meth:`read` also:
        index: what each request is about, as :func:`cadmus.llm.requests.read_index` gives it.
        by_key: the requests of each model, by key.
        replies: of each model.

    Raises:
        InputError: the config names no model, or one that the table does not have.
    """

    def __init__(self, config: Config, directory: Path | None = None, table: Path | None = None) -> None:
        if not config.llm.models:
            raise InputError("llm.models: names no model of config/tables/llms.yaml; nothing is asked")
        self.config = config
        self.models = read_models(table or MODELS, config.llm.models)
        self.names = [model.name for model in self.models]
        directory = directory or Path("results", config.name, "llm")
        self.requests = directory / "requests"
        self._replies = directory / "replies"

    def read(self) -> "Comparison":
        """Read what was prepared, and the replies so far.

        Raises:
            InputError: nothing was prepared from this config.
        """
        self.index: pl.DataFrame = read_index(self.config, self.models, self.requests)
        self.by_key: dict[str, dict[str, Request]] = {name: {} for name in self.names}
        for request in read_requests(self.index, self.requests):
            self.by_key[request.model][request.key] = request
        self.replies = {name: Replies(self._replies / f"{name}.jsonl") for name in self.names}
        return self

    @contextmanager
    def writing(self, names: Sequence[str]) -> Iterator[None]:
        """Have the replies of these models for ourselves, to add to them.

        Raises:
            InputError: another process adds to them.
        """
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(self.replies[name].writing())
            yield

    def chosen(self, only: Sequence[str]) -> list[str]:
        """The names asked for, all of them when there is none.

        Raises:
            InputError: the config does not name one of them.
        """
        for name in only:
            if name not in self.names:
                raise InputError(f"--model {name}: not in llm.models; {suggest(name, self.names)}")
        return list(dict.fromkeys(only)) or self.names

    def to_send(self, name: str) -> list[Request]:
        """The requests of a model that are neither settled nor in a batch under way."""
        replies = self.replies[name]
        awaited = replies.awaited
        return [
            request
            for key, request in self.by_key[name].items()
            if key not in awaited and not replies.settles(key)
        ]

    def costs(self) -> dict[str, Cost]:
        """What the requests of each model cost."""
        return {
            model.name: cost(model, self.by_key[model.name].values(), self.replies[model.name])
            for model in self.models
        }

    def check_server(self, name: str, where: str) -> None:
        """See that the answers of two servers do not come under one name.

        Raises:
            InputError: they would.
        """
        others = self.replies[name].servers - {where, FROM_FILE}
        if others:
            raise InputError(
                f"{self.replies[name].path}: has replies of {', '.join(sorted(others))}, not {where}; move "
                "it away to begin anew, or give the model of this server another name; nothing was sent"
            )

    def take_file(self, file: Path, names: Sequence[str]) -> Counter[str]:
        """Take the replies of these models from a file that ``vllm run-batch`` or a batch has written.

        Returns:
            What its lines were, as :func:`cadmus.llm.batches.take_lines` tells.

        Raises:
            InputError: it cannot be read, or answers no request of them.
        """
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise InputError(f"cannot read the replies {file}: {reason}") from None
        requests = {key: request for name in names for key, request in self.by_key[name].items()}
        lines = take_lines(text, requests, self.replies.__getitem__, FROM_FILE)
        if set(lines) <= {"strangers", "malformed"}:
            raise InputError(
                f"{file}: none of its lines answers a request of this run; is it of another run, or were the "
                "requests prepared anew since?"
            )
        return lines
