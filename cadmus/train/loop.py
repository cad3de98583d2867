"""The training loop: batches in, a checkpoint now and then, an exported model at the end."""

import json
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import torch
from torch import distributed
from torch.nn import functional as F
from tqdm import tqdm

from cadmus import config
from cadmus.common.files import as_input_error, replacing
from cadmus.common.seeds import seed_of
from cadmus.errors import CadmusError, InputError, RankLocalError
from cadmus.model.export import save_export
from cadmus.model.flops import training_flops
from cadmus.model.gpt import GPT
from cadmus.programs import Samples
from cadmus.train import checkpoint, data, engine, state
from cadmus.train.loader import Loader
from cadmus.train.packing import NO_TARGET
from cadmus.train.snapshots import forget_after, snapshot_path, snapshot_steps

LOG_SECONDS = 10.0
"""Time between two lines of progress where there is no terminal."""


class Interrupted(CadmusError):
    """A signal ended the training; a checkpoint of the last step is saved."""


def train(
    run: config.Config,
    read: data.Read,
    data_digest: str,
    checkpoint_directory: Path | str,
    export_directory: Path | str,
    metrics_path: Path | str,
    log: Callable[[str], None] = print,
    snapshot_directory: Path | str | None = None,
) -> None:
    """Train a model from its last checkpoint, or from the start, to the end and export it.

    Losses depend on the config, the programs and the number of ranks alone, however often the run was
    interrupted.

    Args:
        run: model, training and seed.
        read: gives the training programs; called once per node.
        data_digest: identifies the dataset in checkpoints and the export.
        checkpoint_directory: of this run alone; what lies there is resumed from.
        export_directory: where the export goes.
        metrics_path: a file of one JSON object for each step: ``step`` (steps done), ``loss`` (mean over
            the targets, in nats), ``completion_loss`` (over those behind the prompts), ``learning_rate`` (of
            Adam), ``tokens``, ``programs`` and ``flops`` (since the start, see
            :func:`cadmus.model.flops.training_flops`), ``seconds`` (likewise, over all resumed
            parts), ``tokens_per_second`` and ``fill`` (share of the computed tokens that were no padding).
        log: takes lines for the user; called by the first rank only.
        snapshot_directory: where the exports of :func:`cadmus.train.snapshots.snapshot_steps` go; none are
            left if it is None.

    Raises:
        InputError: there is nothing to train on, a program is too long, the ranks cannot share the batch, a
            checkpoint is another run's, another training is writing checkpoints there, the loss is NaN, the
            GPU cannot be used, or there is too little memory or something cannot be written (RankLocalError,
            if other ranks do not know of it).
        Interrupted: SIGTERM or SIGINT came; the run can be resumed.
    """
    device = engine.start_process()
    log = log if distributed.get_rank() == 0 else _say_nothing
    try:
        _check_ranks(run.train)
        run = run.model_copy(update={"train": engine.with_precision(run.train, device)})
        with checkpoint.exclusive(Path(checkpoint_directory), log):
            training_set = data.share(read, run.dataset.max_length)
            _Training(run, training_set, data_digest, Path(checkpoint_directory), device, log).run(
                Path(export_directory),
                Path(metrics_path),
                None if snapshot_directory is None else Path(snapshot_directory),
            )
    except (InputError, Interrupted) as error:
        # All ranks raise these together; after any other error the others may be waiting elsewhere.
        if not isinstance(error, RankLocalError) or distributed.get_world_size() == 1:
            engine.stop_process()
        raise
    engine.stop_process()


def _say_nothing(line: str) -> None:
    """Take a line at the ranks that do not log."""


def _check_ranks(train: config.Train) -> None:
    ranks = distributed.get_world_size()
    if not train.divides(ranks):
        raise InputError(
            f"train.batch_size: {train.batch_size} programs cannot be shared equally by {ranks} ranks, in "
            "whole micro-batches; start another number of ranks"
        )


class _Step(NamedTuple):
    """What came of one step, over all ranks but for ``fill``."""

    loss: float
    completion_loss: float
    learning_rate: float
    tokens: int
    flops: float
    fill: float
    stop: bool


class _Training:
    def __init__(
        self,
        run: config.Config,
        training_set: Samples,
        data_digest: str,
        checkpoints: Path,
        device: torch.device,
        log: Callable[[str], None],
    ) -> None:
        self.config = run
        self.data_digest = data_digest
        self.checkpoints = checkpoints
        self.device = device
        self.rank, self.world_size = distributed.get_rank(), distributed.get_world_size()
        self.log = log
        self.description = checkpoint.describe(run, data_digest, self.world_size)
        seed = seed_of(run.seed, "train", run.train.seed)
        row_length = run.train.row_length or run.dataset.max_length + 1
        self.loader = Loader(training_set, seed, run.train, row_length, self.rank, self.world_size, device)
        self.step = 0
        self.progress: dict[str, Any] = {
            "loss": None,
            "completion_loss": None,
            "tokens": 0,
            "programs": 0,
            "flops": 0.0,
            "seconds": 0.0,
        }

        torch.manual_seed(seed % 2**64)
        if device.type == "cuda":
            problem = engine.prepare_compiler(run.train.compile)
            if problem is not None:
                log(f"train.compile: {problem}")
        with _alone():
            latest = checkpoint.find_common_latest(checkpoints)
        if latest is None:
            with _memory(run, "the model and its optimizer"):
                self.engine = engine.initialise(self._model(), run.train, self.world_size)
        else:
            with checkpoint.opened(latest, self.description) as saved:
                self._resume(saved)
            self.log(f"resuming after step {self.step} from {latest}")
        self.upcoming = self.loader.load(self.step)

    def _model(self) -> GPT:
        model = GPT(self.config.model)
        # The hooks of stage 3 break the graph of each block.
        if self.device.type == "cuda" and self.config.train.compile and self.config.train.zero_stage < 3:
            model.compile_blocks()
        return model

    def _resume(self, saved: checkpoint.Saved) -> None:
        run = self.config
        with _alone(), _memory(run, "the model and its optimizer"):
            model = self._model()
            state.load_weights(model, saved.tensor)
            self.engine = engine.initialise(model, run.train, self.world_size)
            state.restore(self.engine, saved.tensor, saved.adam_steps)
        self.step, self.progress = saved.step, saved.progress

    def run(self, export_directory: Path, metrics_path: Path, snapshot_directory: Path | None) -> None:
        train = self.config.train
        first = self.rank == 0
        snapshots = set() if snapshot_directory is None else snapshot_steps(train)
        if snapshot_directory is not None and snapshots and first:
            with _alone():
                forget_after(snapshot_directory, self.step)
        with (
            _signals() as received,
            _metrics_file(metrics_path, self.step) if first else nullcontext() as metrics,
            _Display(self.step, train.steps, self.log, first) as display,
        ):
            clock = time.perf_counter()
            while self.step < train.steps:
                with _memory(self.config, f"step {self.step + 1}"):
                    done = self._train_step(stop=bool(received))
                if not math.isfinite(done.loss):
                    good = checkpoint.find_latest(self.checkpoints)
                    raise InputError(
                        f"the loss is {done.loss} at step {self.step + 1}; lower the learning rates in the "
                        f"section train (the last good checkpoint is {good or 'none yet'})"
                    )
                now = time.perf_counter()
                seconds, clock = now - clock, now
                self.step += 1
                self.progress = {
                    "loss": done.loss,
                    "completion_loss": done.completion_loss,
                    "tokens": self.progress["tokens"] + done.tokens,
                    "programs": self.progress["programs"] + train.batch_size,
                    "flops": self.progress["flops"] + done.flops,
                    "seconds": self.progress["seconds"] + seconds,
                }
                if metrics is not None:
                    record = {
                        "step": self.step,
                        **self.progress,
                        "learning_rate": done.learning_rate,
                        "tokens_per_second": done.tokens / seconds,
                        "fill": done.fill,
                    }
                    with _alone(), as_input_error(metrics_path):
                        metrics.write(json.dumps(record) + "\n")
                display.show(self.step, done.loss, done.tokens)
                if snapshot_directory is not None and self.step in snapshots:
                    self._export(snapshot_path(snapshot_directory, self.step))
                if done.stop or self.step % train.checkpoint_every == 0 or self.step == train.steps:
                    with _alone():
                        checkpoint.save(
                            self.engine,
                            self.checkpoints,
                            self.step,
                            self.description,
                            self.progress,
                            train.keep_checkpoints,
                        )
                if done.stop and self.step < train.steps:
                    raise Interrupted(
                        f"stopped by a signal after step {self.step} of {train.steps}; a checkpoint is "
                        "saved and the same command goes on from there"
                    )
        self._export(export_directory)
        self.log(f"exported the model of step {self.step} to {export_directory}")

    def _train_step(self, stop: bool) -> _Step:
        train, batch = self.config.train, self.upcoming
        learning_rate = engine.set_learning_rates(self.engine, train, self.step)
        # Sums over the ranks: of all losses, of those in completions, and of the ranks that want to stop.
        totals = torch.zeros(3, dtype=torch.float64, device=self.device)
        if stop:
            totals[2] = 1
        for place, packed in enumerate(batch.micro_batches, start=1):
            logits = self.engine(packed.tokens, packed.positions, packed.segments).float()
            losses = F.cross_entropy(
                logits.flatten(0, 1), packed.targets.flatten(), ignore_index=NO_TARGET, reduction="none"
            )
            of_all, of_completions = losses.sum(), (losses * packed.completion_mask.flatten()).sum()
            totals[0] += of_all.detach()
            totals[1] += of_completions.detach()
            loss = train.prompt_weight * of_all + (1 - train.prompt_weight) * of_completions
            # The weights are those of the whole batch; DeepSpeed takes the mean over the ranks.
            self.engine.backward(loss * (self.world_size / batch.weight), scale_wrt_gas=False)
            if place == len(batch.micro_batches):
                # A GPU is still computing; the optimizer's step waits for it.
                self.upcoming = self.loader.load(self.step + 1)
            self.engine.step()
        if self.world_size > 1:
            distributed.all_reduce(totals)
        of_all, of_completions, stopping = totals.tolist()
        return _Step(
            of_all / batch.targets,
            of_completions / batch.completion_targets,
            learning_rate,
            batch.tokens,
            training_flops(self.config.model, batch.tokens, batch.pairs),
            batch.fill,
            stopping > 0,
        )

    def _export(self, directory: Path) -> None:
        weights = state.gather(self.engine, (state.WEIGHT,))
        if self.rank == 0:
            model = GPT(self.config.model)
            state.load_weights(model, weights.__getitem__)
            metadata = {
                "config": self.config.model_dump(),
                "data_digest": self.data_digest,
                "steps": self.step,
                **self.progress,
                "device": str(self.device),
                "cores": torch.get_num_threads() * self.world_size,
            }
            with _alone():
                save_export(model, self.config.model, directory, metadata)
        distributed.barrier()


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The SIGTERM and SIGINT received so far; acted upon where all ranks can do so together."""
    received: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda got, frame: received.append(got)) for number in numbers]
    try:
        yield received
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _metrics_file(path: Path, step: int) -> Iterator[TextIO]:
    """The metrics, open for appending, without what an interrupted run wrote after ``step``."""
    with _alone(), as_input_error(path):
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        with replacing(path) as temporary:
            kept = [line + "\n" for line in lines if _step_of(line) <= step]
            temporary.write_text("".join(kept), encoding="utf-8")
        file = path.open("a", encoding="utf-8", buffering=1)
    try:
        yield file
    finally:
        # What could not be written was reported when it was tried.
        with suppress(OSError):
            file.close()


def _step_of(line: str) -> float:
    """The step of a line of metrics; beyond all steps when the line was cut off."""
    try:
        step: float = json.loads(line)["step"]
        return step
    except (ValueError, TypeError, KeyError):
        return math.inf


@contextmanager
def _alone() -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise RankLocalError(str(error)) from None


@contextmanager
def _memory(run: config.Config, what: str) -> Iterator[None]:
    """Say in one line what to change when there is too little memory, of the machine or of the GPU."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # On a CPU, torch has no class of error for it.
        known = isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(
            error
        )
        if not known:
            raise
        programs = run.train.micro_batch_size or run.train.batch_size // distributed.get_world_size()
        sizes = ", ".join(f"{key} {value}" for key, value in run.model.model_dump(exclude={"tied"}).items())
        raise RankLocalError(
            f"too little memory for {what}; set a train.micro_batch_size below {programs}, "
            f"or a smaller model than {sizes}"
        ) from None


class _Display:
    """A progress bar on a terminal, elsewhere a line now and then."""

    def __init__(self, step: int, steps: int, log: Callable[[str], None], visible: bool) -> None:
        self.steps, self.log, self.visible = steps, log, visible
        on_terminal = visible and sys.stderr.isatty()
        self.bar = tqdm(
            total=steps, initial=step, unit="step", disable=not on_terminal, mininterval=2, smoothing=0.1
        )
        self.since, self.start_step, self.tokens = time.perf_counter(), step, 0

    def __enter__(self) -> "_Display":
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()

    def show(self, step: int, loss: float, tokens: int) -> None:
        self.tokens += tokens
        elapsed = time.perf_counter() - self.since
        due = elapsed >= LOG_SECONDS or step == self.steps
        if not self.bar.disable:
            self.bar.set_postfix_str(f"loss {loss:.4f}, {self.tokens / elapsed:,.0f} tokens/s", refresh=False)
            self.bar.update()
        elif due and self.visible:
            left = elapsed / (step - self.start_step) * (self.steps - step)
            self.log(
                f"step {step}/{self.steps}, loss {loss:.4f}, {self.tokens / elapsed:,.0f} tokens/s, "
                f"{left / 60:.1f} min left"
            )
        if due:
            self.since, self.start_step, self.tokens = time.perf_counter(), step, 0
