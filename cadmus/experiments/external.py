"""Experiments on a model of any framework: a function from prompts to completions."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cadmus import isa
from cadmus.config import Config, validate
from cadmus.errors import InputError, check_types
from cadmus.experiments import NAMES, get
from cadmus.experiments.experiment import Subject
from cadmus.programs import Programs
from cadmus.store import check_writable, write_parquet

if TYPE_CHECKING:
    import polars as pl

Complete = Callable[[list[str]], Iterable[str | None]]
NextLogits = Callable[[list[str]], Any]
BATCH = 512
"""Prompts at a time, unless ``evaluate.batch_size`` says otherwise."""
_READABLE = re.compile(f"[{re.escape(''.join(isa.BY_SYMBOL.keys() - {isa.END}))}]*")


def evaluate_model(
    complete: Complete,
    dataset: Path | str,
    experiment: str = "completions",
    *,
    next_logits: NextLogits | None = None,
    config: Config | None = None,
    output: Path | str | None = None,
) -> "pl.DataFrame":
    """Run an experiment on a model of your own, of any framework; return the results as a table.

    The results are those of ``cadmus evaluate EXPERIMENT``. Train the model on the split ``train`` alone.

    Args:
        complete: takes a list of n prompts and returns n completions. A completion is what follows the
            prompt; its end ``.`` is optional. None is one that did not end. Induction and pass_at_k, which
            sample, ask for each prompt several times.
        dataset: directory of the dataset that the model was trained on.
        experiment: completions (Table 3), pass_at_k, induction, grid or infilling.
        next_logits: takes a list of n prompts and returns the logits of the next instruction, shape (n, 65),
            in the order of ``cadmus.isa.TOKEN_ID``. Without it, the grid reads the first instruction of a
            completion.
        config: the settings, such as ``evaluate.batch_size``, the maximum of n (512 if null); by default the
            section ``dataset`` of the dataset, with default experiments.
        output: Parquet file for the results, which ``cadmus figure`` draws.

    Raises:
        InputError: an argument, or what a function returns, is wrong. Errors of the functions pass through.
    """
    declared = get(experiment)
    if declared.needs:
        others = ", ".join(name for name in NAMES if not get(name).needs)
        raise InputError(f"{experiment}: needs {declared.needs}, which no function gives; choose {others}")
    for name, function in {"complete": complete, "next_logits": next_logits or complete}.items():
        if not callable(function):
            problem = f"must be a function of a list of prompts, got {type(function).__name__}"
            raise InputError(f"{name}: {problem}; cadmus.pipeline.evaluate takes directories of models")
    if output is not None:
        check_writable(output)
    config = config or _config_of(Path(dataset))
    model = External(complete, next_logits, config.evaluate.batch_size or BATCH)
    subject = ExternalSubject(model, config, Path(dataset))
    results = declared.run(subject)
    if output is not None:
        write_parquet(output, "results", results, subject.metadata())
    return results


def _config_of(dataset: Path) -> Config:
    """Return the config that a dataset was sampled with, with default experiments."""
    from cadmus.dataset.manifest import Described, read_manifest_as

    noted = read_manifest_as(Described, dataset)
    sampled = {"name": noted.name, "seed": noted.seed, "dataset": noted.dataset}
    # A config has them; experiments on completions read neither.
    unread = {"model": {"layers": 1, "width": 2, "heads": 1, "mlp": 1}, "train": {"steps": 1}}
    return validate({**sampled, **unread}, Config, str(dataset))


class External:
    """A function in the place of :class:`cadmus.model.inference.Cadmus`, with the methods that ask it."""

    causal = True  # A prompt is all that the function sees.

    def __init__(self, complete: Complete, next_logits: NextLogits | None, batch_size: int) -> None:
        self._complete, self._next_logits, self._batch_size = complete, next_logits, batch_size

    def complete(
        self,
        prompts: Programs,
        max_length: int | np.ndarray,
        *,
        samples: int = 1,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> tuple[Programs, np.ndarray]:
        """Return completions as Cadmus does; the function decides how it samples them.

        One that is not a program, or exceeds ``max_length``, is cut off there and did not end.
        """
        copies = np.repeat(np.arange(len(prompts)), samples)
        room = (np.broadcast_to(max_length, len(prompts)) - prompts.lengths)[copies]
        texts, ended = [], []
        for text, most in zip(self._texts(prompts.take(copies)), room.tolist(), strict=True):
            body = (text or "").removesuffix(isa.END)
            start = _READABLE.match(body)
            texts.append(start[0][:most] if start else "")
            ended.append(text is not None and texts[-1] == body)
        return Programs.from_strings(texts), np.array(ended, np.bool_)

    def next_tokens(self, prompts: Programs) -> np.ndarray:
        """Return the id of the instruction after each prompt, -1 if it is none: int64, shape (n,)."""
        if self._next_logits:
            return self.next_logits(prompts).argmax(1)
        first = ("" if text is None else text[:1] or isa.END for text in self._texts(prompts))
        return np.fromiter((isa.TOKEN_ID.get(symbol, -1) for symbol in first), np.int64, len(prompts))

    def next_logits(self, prompts: Programs) -> np.ndarray:
        """Return the logits of the instruction after each prompt: shape (n, 65)."""
        if self._next_logits is None:
            raise InputError("next_logits: is missing; give a function that returns logits, shape (n, 65)")
        logits = []
        for batch in self._batches(prompts):
            with _noting("next_logits", batch):
                logits.append(np.asarray(self._next_logits(batch)))
            shape = len(batch), isa.VOCABULARY_SIZE
            if logits[-1].shape != shape or not np.issubdtype(logits[-1].dtype, np.number):
                got = f"{logits[-1].dtype}, shape {logits[-1].shape}"
                raise InputError(f"next_logits: must return numbers, shape {shape}, got {got}")
            if np.isnan(logits[-1]).any():
                raise InputError(f"next_logits: must return no NaN; the first prompt was {batch[0]!r}")
        return np.concatenate(logits)

    def _texts(self, prompts: Programs) -> Iterator[str | None]:
        for batch in self._batches(prompts):
            with _noting("complete", batch):
                answer = self._complete(batch)
                listed = isinstance(answer, Iterable) and not isinstance(answer, str | bytes | Mapping)
                texts = [*answer] if listed else []
            if len(texts) != len(batch):
                got = len(texts) if listed else type(answer).__name__
                raise InputError(
                    f"complete: must return a list of {len(batch)}, one for each prompt, got {got}"
                )
            check_types("complete: completion", texts, str | None, "text, or None if it did not end")
            yield from texts

    def _batches(self, prompts: Programs) -> Iterator[list[str]]:
        texts = prompts.to_strings()
        for first in range(0, len(texts), self._batch_size):
            yield texts[first : first + self._batch_size]


class ExternalSubject(Subject):
    """A function and the test programs it may be asked about."""

    def __init__(self, model: External, config: Config, dataset: Path) -> None:
        self.external, self.config, self.dataset = model, config, dataset

    def model(self, directory: Path | None = None) -> External:
        return self.external

    def model_metadata(self) -> dict[str, str]:
        return {}


@contextmanager
def _noting(name: str, prompts: list[str]) -> Iterator[None]:
    """Add to an error of a function what it was asked."""
    try:
        yield
    except Exception as error:
        error.add_note(f"raised by {name}, for {len(prompts)} prompts; the first is {prompts[0]!r}")
        raise
