"""Experiments on a model of any framework: a function from prompts to completions."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
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
_UNREADABLE = re.compile(f"[^{re.escape(''.join(isa.BY_SYMBOL.keys() - {isa.END}))}]")


def evaluate_model(
    complete: Complete,
    dataset: Path | str,
    experiment: str = "completions",
    *,
    next_logits: NextLogits | None = None,
    config: Config | None = None,
    output: Path | str | None = None,
    baselines: Path | str | None = None,
) -> "pl.DataFrame":
    """Run an experiment on a model of your own, of any framework; return the results of ``cadmus evaluate``.

    Errors of the functions pass through, with a note; what they return is checked.

    Args:
        complete: takes a list of n prompts and returns n completions. A completion is what follows the
            prompt; its end ``.`` is optional. None is one that did not end. Induction and pass_at_k, which
            sample, ask for each prompt several times.
        dataset: directory of the dataset on whose split ``train`` the model was trained.
        experiment: completions (Table 3), pass_at_k, induction or grid.
        next_logits: takes a list of n prompts and returns the logits of the next instruction, shape (n, 65),
            in the order of ``cadmus.isa.TOKEN_ID``. Without it, the grid reads the first instruction of a
            completion.
        config: the settings, such as ``evaluate.batch_size``, the maximum of n (512 if null); by default the
            section ``dataset`` of the dataset, with default experiments.
        output: Parquet file for the results, which ``cadmus figure`` draws.
        baselines: file of ``cadmus baselines`` for the dataset; without it, completions measures them anew.
    """
    declared = get(experiment)
    if declared.needs:
        others = ", ".join(name for name in NAMES if not get(name).needs)
        raise InputError(f"{experiment}: needs {declared.needs}, which no function gives; choose {others}")
    for name, function in {"complete": complete, "next_logits": next_logits or complete}.items():
        if not callable(function):
            raise InputError(
                f"{name}: must be a function of a list of prompts, got {type(function).__name__}"
            )
    if output is not None:
        check_writable(output)
    config = config or _config_of(Path(dataset))
    model = External(complete, next_logits, config.evaluate.batch_size or BATCH)
    subject = ExternalSubject(model, config, Path(dataset))
    subject.baselines = None if baselines is None else Path(baselines)
    results = declared.run(subject)
    if output is not None:
        write_parquet(output, "results", results, subject.metadata())
    return results


def _config_of(dataset: Path) -> Config:
    """Return the config that a dataset was sampled with, with default experiments."""
    from cadmus.dataset.manifest import Described, read_manifest_as

    noted = read_manifest_as(Described, dataset)
    # A config has a model and a training; experiments on completions read neither.
    unread = {"model": {"layers": 1, "width": 2, "heads": 1, "mlp": 1}, "train": {"steps": 1}}
    return validate({**noted.model_dump(include={"name", "seed", "dataset"}), **unread}, Config, str(dataset))


class External:
    """Functions in the place of :class:`cadmus.model.inference.Cadmus`, with the methods that ask it."""

    causal = True  # A prompt is all that the functions see.

    def __init__(self, complete: Complete, next_logits: NextLogits | None, batch_size: int) -> None:
        self._complete, self._next_logits, self._batch_size = complete, next_logits, batch_size

    def complete(
        self, prompts: Programs, max_length: int | np.ndarray, *, samples: int = 1, **sampling: float
    ) -> tuple[Programs, np.ndarray]:
        """Return completions as Cadmus does; temperature and seed are up to the function.

        One that is not a program, or exceeds ``max_length``, is cut off there and did not end.
        """
        copies = np.repeat(np.arange(len(prompts)), samples)
        room = (np.broadcast_to(max_length, len(prompts)) - prompts.lengths)[copies].tolist()
        answers = self._ask(self._complete, prompts.take(copies), _texts)
        whole = [None if text is None else text.removesuffix(isa.END) for text in answers]
        read = [_UNREADABLE.split(text or "", 1)[0][:most] for text, most in zip(whole, room, strict=True)]
        return Programs.from_strings(read), np.array(read) == np.array(whole, np.object_)

    def next_tokens(self, prompts: Programs) -> np.ndarray:
        """Return the id of the instruction after each prompt, -1 if it is none: int64, shape (n,)."""
        if self._next_logits:
            return self.next_logits(prompts).argmax(1)
        answers = self._ask(self._complete, prompts, _texts)
        first = ["" if text is None else text[:1] or isa.END for text in answers]
        return np.array([isa.TOKEN_ID.get(symbol, -1) for symbol in first], np.int64)

    def next_logits(self, prompts: Programs) -> np.ndarray:
        """Return the logits of the instruction after each prompt: shape (n, 65)."""
        if self._next_logits is None:
            raise InputError("next_logits: is missing; give a function that returns logits, shape (n, 65)")
        return np.stack([*self._ask(self._next_logits, prompts, _logits)])

    def _ask(
        self,
        function: Callable[[list[str]], Any],
        prompts: Programs,
        read: Callable[[Any, int], Iterable[Any]],
    ) -> Iterator[Any]:
        """Yield what a function answers to each prompt; ``read`` checks the answers to a batch."""
        texts = prompts.to_strings()
        for first in range(0, len(texts), self._batch_size):
            batch = texts[first : first + self._batch_size]
            try:
                yield from read(function(batch), len(batch))
            except InputError:
                raise
            except Exception as error:
                error.add_note(
                    f"The function was asked about {len(batch)} prompts, the first is {batch[0]!r}."
                )
                raise


class ExternalSubject(Subject):
    """Functions, and the test programs they may be asked about."""

    exported = False

    def __init__(self, model: External, config: Config, dataset: Path) -> None:
        self.external, self.config, self.dataset = model, config, dataset

    def model(self, directory: Path | None = None) -> External:
        return self.external


def _texts(answer: Any, n: int) -> list[str | None]:
    listed = isinstance(answer, Iterable) and not isinstance(answer, str | bytes | Mapping)
    texts = [*answer] if listed else []
    if len(texts) != n:
        got = len(texts) if listed else type(answer).__name__
        raise InputError(f"complete: must return a list of {n}, one for each prompt, got {got}")
    check_types("complete: completion", texts, str | None, "text, or None if it did not end")
    return texts


def _logits(answer: Any, n: int) -> np.ndarray:
    logits, shape = np.asarray(answer), (n, isa.VOCABULARY_SIZE)
    if logits.shape != shape or not np.issubdtype(logits.dtype, np.number) or np.isnan(logits).any():
        got = f"{logits.dtype}, shape {logits.shape}"
        raise InputError(f"next_logits: must return numbers without NaN, shape {shape}, got {got}")
    return logits
