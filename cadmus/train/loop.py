"""The training loop: train steps, save checkpoints, export the model.

A GPU computes what this process has told it to, some time later. So the loop runs ahead of it: it launches
the next step before it reads the losses of the last one, and threads prepare the batches. Before a checkpoint
or a snapshot it waits. A CPU computes at once, and there the loop reads the losses of each step before the
next one.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, distributed

from cadmus import config
from cadmus.errors import InputError, Interrupted, RankLocalError
from cadmus.model import mixer
from cadmus.model.export import save_export
from cadmus.model.flops import training_flops
from cadmus.model.gpt import GPT
from cadmus.model.rate import dtype_of, matmul_rate
from cadmus.programs import Samples
from cadmus.tools import seed_of
from cadmus.train import checkpoint, data, engine
from cadmus.train.batches import Batch, Loader, Prefetcher
from cadmus.train.compiling import compile_blocks
from cadmus.train.labels import state_outputs
from cadmus.train.metrics import START, Display, MetricsFile, advance
from cadmus.train.objectives import build
from cadmus.train.objectives.objective import Setting, forward
from cadmus.train.objectives.state_supervision import SupervisedGPT
from cadmus.train.paths import RunPaths, find_checkpoints, remove_snapshots, snapshot_steps, step_path
from cadmus.train.ranks import Place, deferred_signals, on_first_rank

if TYPE_CHECKING:
    from cadmus.train.validation import Validation

THREADS = 4
"""Threads that prepare batches for a GPU: the labels of a batch take longer than a step of a small model."""


def train(
    run: config.Config,
    read: data.Read,
    data_digest: str,
    paths: RunPaths,
    log: Callable[[str], None] = print,
    held_out: Callable[[], Samples] | None = None,
) -> None:
    """Train a model and export it, resuming from the newest checkpoint if there is one.

    All ranks call this together.  Losses depend only on the config, the programs and the number of ranks,
    however often the run is interrupted.

    ``read`` is called once per node, and on each rank with ``train.verdict``. ``data_digest`` identifies the
    dataset in checkpoints and in the export. The checkpoints stay. ``log`` takes lines for the user, from the
    first rank. ``held_out`` returns programs of the validation split, on which snapshots are measured.

    Raises:
        InputError: on all ranks; RankLocalError if one rank fails, because of its memory, disk or GPU.
        Interrupted: SIGTERM or SIGINT; the run can be resumed.
    """
    device = engine.start_process()
    place = Place(distributed.get_rank(), distributed.get_world_size(), device)
    log = log if place.rank == 0 else (lambda line: None)
    try:
        if not run.train.divides(place.ranks):
            raise InputError(
                f"train.batch_size: {run.train.batch_size} programs cannot be shared equally by "
                f"{place.ranks} ranks, in whole micro-batches; start another number of ranks"
            )
        run = run.model_copy(update={"train": engine.with_precision(run.train, place.device)})
        with checkpoint.exclusive(paths.checkpoints), memory_errors(run, place.ranks):
            Training(run, read, data_digest, paths, place, log, held_out).run()
    except (InputError, Interrupted) as error:
        # All ranks raise these together; after any other error the others may be waiting elsewhere.
        if not isinstance(error, RankLocalError) or place.ranks == 1:
            engine.stop_process()
        raise
    engine.stop_process()


def device_name(device: torch.device) -> str:
    """Return the name of the card, such as ``NVIDIA H100 80GB HBM3``, or ``cpu``."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def runs_ahead(device: torch.device) -> bool:
    """Return True if the device computes later than it is told to."""
    return device.type == "cuda"


def _copied(totals: Tensor, reduction: Any) -> tuple[Tensor, Callable[[], object]]:
    """Return a copy of reduced totals for the host, and the function that waits for it."""
    # Of these, only the stream waits for the reduction.
    reduction.wait()
    copy = totals.to("cpu", non_blocking=True)
    if totals.device.type == "cpu":
        return copy, lambda: None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return copy, event.synchronize


class Launched(NamedTuple):
    """A step that the device may still be computing."""

    step: int
    """Counted from 0."""
    batch: Batch
    learning_rate: float
    totals: Tensor
    """1 if a rank has received a signal, then the sums of all objectives, over all ranks once ``wait`` has
    returned."""
    wait: Callable[[], object]


class Training:
    """One rank of a training, after ``step`` steps; arguments as in train()."""

    def __init__(
        self,
        run: config.Config,
        read: data.Read,
        data_digest: str,
        paths: RunPaths,
        place: Place,
        log: Callable[[str], None],
        held_out: Callable[[], Samples] | None,
    ) -> None:
        self.config, self.data_digest, self.paths, self.log = run, data_digest, paths, log
        self.place, self.device = place, place.device
        self.description = checkpoint.describe(run, data_digest)
        self.step, self.progress = 0, START

        # One seed decides the order of the programs, the first weights and what is sampled.
        seed = seed_of(run.seed, "train", run.train.seed)
        loader = Loader(data.share(read), seed, run, place)
        if run.model.mixer != config.ATTENTION:
            mixer.check(run.model.mixer, run.model.width, run.model.heads)

        # The order of what follows matters. Nothing draws random numbers between the seed and the weights.
        # The blocks are compiled before DeepSpeed wraps the model. It copies the weights when it starts, so
        # those of a checkpoint are loaded before, and the state of the optimizer, which it makes, after.
        torch.manual_seed(seed % 2**64)
        model = SupervisedGPT(run.model, run.train) if run.train.state_weight else GPT(run.model)
        problem = compile_blocks(model, run, place.device)
        if problem is not None:
            log(f"train.compile: {problem}")
        saved = checkpoint.find_latest(paths.checkpoints, self.description)
        if saved is None:
            self.engine = engine.initialize(model, run.train, place.device)
        else:
            with saved.tensors(model) as tensors:
                engine.load_weights(model, tensors)
                self.engine = engine.initialize(model, run.train, place.device)
                engine.restore(self.engine, tensors, saved.adam_steps, run.row_length)
            self.step, self.progress = saved.step, saved.values["progress"]
            log(f"resuming after step {self.step} from {saved.path}")

        self.objectives = build(Setting(run, place, self.engine, read, seed, log))
        self.batches = Prefetcher(loader.load, self.step, THREADS if runs_ahead(place.device) else 0)
        self.validation: Validation | None = None
        if held_out is not None and paths.snapshots is not None and place.rank == 0:
            # It imports Polars, which other trainings do without; so does training on the verdict.
            from cadmus.train import validation

            self.validation = validation.Validation(held_out(), run.dataset)
        self.matmul_rate = self._matmul_rate()

    def _matmul_rate(self) -> float:
        """Return the FLOPs per second of matrix products on all ranks, at the same time as in a step."""
        distributed.barrier()
        own = matmul_rate(self.device, dtype_of(self.config.train.precision, self.device))
        rate = torch.tensor(own, dtype=torch.float64, device=self.device)
        distributed.all_reduce(rate)
        return rate.item()

    def run(self) -> None:
        """Train to the last step and export the model."""
        train, paths = self.config.train, self.paths
        self.snapshots = set() if paths.snapshots is None else snapshot_steps(train)
        self.display = Display(self.step, train.steps, self.log, visible=self.place.rank == 0)
        with deferred_signals() as received, self.display.bar, closing(self.batches):
            on_first_rank(self._open_files)
            self.clock = time.perf_counter()
            # The step whose losses nobody has read, if there is one.
            unread: Launched | None = None
            stop = False
            while self.step < train.steps:
                launched = self.train_step(stop=bool(received))
                if unread is not None:
                    stop |= self.read(unread)
                unread = launched
                self.step += 1
                last = self.step == train.steps
                save = stop or last or self.step % train.checkpoint_every == 0
                if save or self.step in self.snapshots or not runs_ahead(self.device):
                    stop |= self.read(unread)
                    unread = None
                if save or stop:
                    self._save()
                if stop and not last:
                    raise Interrupted(
                        f"stopped by a signal after step {self.step} of {train.steps}; a checkpoint is "
                        "saved, and the same command resumes from it"
                    )
            # Another process may have been busy at the start.
            self.matmul_rate = max(self.matmul_rate, self._matmul_rate())
            self._export(paths.export)
        self.log(f"exported the model of step {self.step} to {paths.export}")

    def train_step(self, stop: bool) -> Launched:
        """Train on the next batch; ``stop`` is True if this rank received a signal."""
        train, batch = self.config.train, self.batches.take()
        learning_rate = engine.set_learning_rates(self.engine, train, self.step)
        for objective in self.objectives:
            objective.start(self.step)

        for number, packed in enumerate(batch.micro_batches, start=1):
            last = number == len(batch.micro_batches)
            outputs = forward(self.engine, packed)
            loss = sum(objective.loss(outputs, packed, batch, last) for objective in self.objectives)
            if last:
                # Filled on the device: copying from the host would synchronize a GPU.
                stopping = torch.full((1,), float(stop), dtype=torch.float64, device=self.device)
                totals = torch.cat([stopping, *(objective.sums for objective in self.objectives)])
                # While gradients are computed.
                reduction = distributed.all_reduce(totals, async_op=True)
            engine.backward(self.engine, loss)
            if last:
                # While gradients are reduced, which the optimizer's step waits for.
                self.batches.prepare()
            self.engine.step()
        wait: Callable[[], object] = reduction.wait
        if runs_ahead(self.device):
            # A copy that is asked for later would also wait for the steps that are launched until then.
            totals, wait = _copied(totals, reduction)
        return Launched(self.step, batch, learning_rate, totals, wait)

    def read(self, launched: Launched) -> bool:
        """Wait for a step and log its metrics; return True if any rank had received a signal.

        If a snapshot is due after the step, the next one has not been launched yet.
        """
        launched.wait()
        stopped, *sums = launched.totals.tolist()
        metrics = self._metrics(launched, sums)
        done = launched.step + 1
        if not math.isfinite(metrics["loss"]):
            good = find_checkpoints(self.paths.checkpoints)
            raise InputError(
                f"the loss is {metrics['loss']} at step {done}; lower the learning rates in "
                f"the section train (the last good checkpoint is {good[-1] if good else 'none yet'})"
            )
        now = time.perf_counter()
        seconds, self.clock = now - self.clock, now
        self.progress = advance(self.progress, {**metrics, "seconds": seconds})
        tokens = metrics["tokens"]
        metrics |= {"tokens_per_second": tokens / seconds, "validation_loss": None, "validation_solved": None}
        if self.paths.snapshots is not None and done in self.snapshots:
            metrics |= self._export(step_path(self.paths.snapshots, done), self.validation)
            if self.validation:
                loss, solved = metrics["validation_loss"], metrics["validation_solved"]
                self.log(f"step {done}: validation loss {loss:.4f}, solved {solved:.1%}")
        if self.place.rank == 0:
            self._write(done, {"step": done, **metrics, **self.progress})
        self.display.show(done, metrics["loss"], tokens)
        return stopped > 0

    def _metrics(self, launched: Launched, sums: list[float]) -> dict[str, Any]:
        """Return the metrics of a step from the sums of its objectives over all ranks."""
        train, batch = self.config.train, launched.batch
        metrics: dict[str, Any] = {
            **{name: None for objective in self.objectives for name in objective.names},
            "learning_rate": launched.learning_rate,
            "fill": batch.fill,
            "tokens": batch.tokens,
            "programs": train.batch_size,
            "flops": training_flops(self.config.model, batch.tokens, batch.pairs, state_outputs(train)),
        }
        for objective in self.objectives:
            size = len(objective.sums)
            found = objective.metrics(launched.step, sums[:size], batch)
            metrics |= found | {"flops": metrics["flops"] + found.get("flops", 0.0)}
            sums = sums[size:]
        return metrics

    def _write(self, step: int, metrics: dict[str, Any]) -> None:
        """Write the metrics of a step to the file and to DeepSpeed's monitors."""
        self.metrics.write(metrics)
        if self.engine.monitor.enabled:
            numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
            events = [(f"train/{name}", value, step) for name, value in numbers.items()]
            self.engine.monitor.write_events(events)

    def _open_files(self) -> None:
        """Open the files for metrics and snapshots, without what an interrupted run wrote after this step."""
        if self.paths.snapshots is not None:
            remove_snapshots(self.paths.snapshots, after=self.step)
        self.metrics = MetricsFile(self.paths.metrics, self.step)

    def _save(self) -> None:
        if self.place.rank == 0:
            self.metrics.flush()
        place, keep = self.paths.checkpoints, self.config.train.keep_checkpoints
        checkpoint.save(self.engine, place, self.step, self.description, {"progress": self.progress}, keep)

    def _export(self, directory: Path, validation: "Validation | None" = None) -> dict[str, Any]:
        """Export the model; return what ``validation``, which the first rank has, measures."""
        weights = engine.gather(self.engine, weights_only=True)

        def export() -> dict[str, Any]:
            checkpoint.check_finite(weights, self.step)
            model = GPT(self.config.model)
            engine.load_weights(model, weights.__getitem__)
            metadata = {
                "config": self.config.model_dump(),
                "data_digest": self.data_digest,
                "steps": self.step,
                **self.progress,
                "device": device_name(self.device),
                "cores": torch.get_num_threads() * self.place.ranks,
                "matmul_rate": self.matmul_rate,
            }
            save_export(model, directory, metadata)
            return validation.measure(model.to(self.device)) if validation else {}

        return on_first_rank(export)


@contextmanager
def memory_errors(run: config.Config, ranks: int) -> Iterator[None]:
    """Raise running out of memory, of CPU or GPU, as RankLocalError that names the sizes to change."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # PyTorch has no error class for CPU memory.
        out_of_memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not out_of_memory and "can't allocate memory" not in str(error):
            raise
        programs = run.train.micro_batch_size or run.train.batch_size // ranks
        sizes = run.model.model_dump(include={"layers", "width", "heads", "mlp"})
        raise RankLocalError(
            f"too little memory; set a train.micro_batch_size below {programs}, or a smaller model than "
            + ", ".join(f"{key} {value}" for key, value in sizes.items())
        ) from None
