"""The training as a page: build the model, its engine and the objectives; then step, log, save and export.

Read :class:`Training` from top to bottom. A step is ``train_step``, which launches it (batch, losses,
backward, optimizer), and ``finish_step``, which reads its losses and writes its metrics and snapshot. On a
GPU, which computes what this process has told it to some time later, the next step is launched before the
losses of the last one are read. A CPU computes at once, so each step is finished before the next one.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, distributed

from cadmus import config
from cadmus.errors import InputError, Interrupted, RankLocalError
from cadmus.model.export import load_export, read_init, save_export
from cadmus.model.flops import training_flops
from cadmus.model.gpt import GPT, attend_to_previous
from cadmus.model.rate import dtype_of, matmul_rate
from cadmus.programs import Samples
from cadmus.tools import cores, seed_of
from cadmus.train import checkpoint, data, engine, graphs, objectives
from cadmus.train.compiling import compile_blocks
from cadmus.train.heads import Head, HeadedGPT
from cadmus.train.loader import Batch, Prefetcher
from cadmus.train.metrics import START, Display, MetricsFile, advance
from cadmus.train.objectives.objective import Objective, Setting, forward
from cadmus.train.packing import PackedBatch
from cadmus.train.paths import RunPaths, find_checkpoints, remove_snapshots, snapshot_steps, step_path
from cadmus.train.ranks import Place, deferred_signals, on_first_rank

if TYPE_CHECKING:
    from cadmus.train.validation import Validation

WORKERS = 12
"""Processes that prepare batches for a GPU, at most: labels take longer than a step of a small model, and an
H200 waited for four."""


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


def train(
    run: config.Config,
    read: data.ReadSplit,
    data_digest: str,
    paths: RunPaths,
    log: Callable[[str], None] = print,
    held_out: Callable[[], Samples] | None = None,
) -> None:
    """Train a model and export it, resuming from the newest checkpoint if there is one.

    All ranks call this together.  Losses depend only on the config, the programs and the number of ranks,
    however often the run is interrupted.

    ``read`` is called on each rank, again by objectives that sample completions. ``data_digest`` identifies
    the dataset in checkpoints and in the export. The checkpoints stay. ``log`` takes lines for the user, from
    the first rank. ``held_out`` returns programs of the validation split, on which snapshots are
    measured.

    Raises:
        InputError: on all ranks; RankLocalError if one rank fails, because of its memory, disk or GPU.
        Interrupted: SIGTERM or SIGINT; the run can be resumed.
    """
    with engine.own_process_state():
        device = engine.start_process()
        place = Place(distributed.get_rank(), distributed.get_world_size(), device)
        log = log if place.rank == 0 else (lambda line: None)
        try:
            if problem := run.train.indivisible(place.ranks):
                raise InputError(f"train.{problem}; start another number of ranks")
            run = run.model_copy(update={"train": engine.with_precision(run.train, place.device)})
            with checkpoint.exclusive(paths.checkpoints), memory_errors(run, place.ranks):
                Training(run, read, data_digest, paths, place, log, held_out).run()
        except (InputError, Interrupted) as error:
            # All ranks raise these together; after any other error the others may be waiting elsewhere.
            if not isinstance(error, RankLocalError) or place.ranks == 1:
                # A GPU that has failed may not answer.
                with suppress(RuntimeError):
                    engine.stop_process()
            raise
        engine.stop_process()


class Training:
    """One rank of a training, after ``step`` steps; arguments as in train()."""

    def __init__(
        self,
        run: config.Config,
        read: data.ReadSplit,
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
        self.init = read_init(run)

        # The batches. One seed decides the order of the programs, the first weights and what is sampled.
        seed = seed_of(run.seed, "train", run.train.seed)
        loader = objectives.make_loader(run, data.read_all(read), seed, place)

        # The model. Nothing may draw random numbers between the seed and the weights.
        torch.manual_seed(seed % 2**64)
        kinds = objectives.of(run)
        model = build_model(run, kinds)
        attend_to_previous(model, run.train.previous_token_heads)
        if run.train.init is not None:
            # Heads are not exported, so they keep their random weights.
            model.load_state_dict(load_export(run.train.init).state_dict(), strict=False)

        # The blocks are compiled before the engine wraps the model, which then runs the compiled ones.
        problem = compile_blocks(model, run, place.device)
        if problem is not None:
            log(f"train.compile: {problem}")

        # The engine. When it starts, it copies the weights and makes the state of the optimizer: so a
        # checkpoint's weights are loaded before, and its optimizer state after.
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

        # The terms of the loss, each with its sums and metrics.
        setting = Setting(run, place, self.engine, read, seed, log)
        self.objectives = [kind(setting) for kind in kinds]

        # Losses and gradients: one kernel after the other, or all of them at once.
        self.compute: graphs.Compute = self._compute
        self.graphed = run.train.cuda_graph
        if self.graphed and (obstacle := graphs.obstacle(run, place, self.objectives)):
            self.graphed = False
            log(f"train.cuda_graph: {obstacle}; kernels are launched one by one")
        if self.graphed:
            self.compute = graphs.Graphed(self._compute, loader.fix_rows())

        # Workers prepare batches where the loop runs ahead: on a CPU they would take cores from the step.
        spare = max(1, cores() // place.ranks - 1)
        workers = min(WORKERS, spare) if runs_ahead(place.device) else 0
        self.batches = Prefetcher(loader.load, range(self.step, run.train.steps), workers, place.device)
        self.validation: Validation | None = None
        if held_out is not None and paths.snapshots is not None and place.rank == 0:
            # It imports Polars, which other trainings do without; so does reinforcement learning.
            from cadmus.train import validation

            self.validation = validation.Validation(held_out(), run.dataset)
        self.matmul_rate = self._matmul_rate()

    def run(self) -> None:
        """Train to the last step and export the model."""
        train, paths = self.config.train, self.paths
        self.snapshots = set() if paths.snapshots is None else snapshot_steps(train)
        self.display = Display(self.step, train.steps, self.log, visible=self.place.rank == 0)
        # Signals wait for the end of a step: all ranks must stop after the same one.
        files = ExitStack()
        stream = graphs.stream_of_its_own(self.device) if self.graphed else nullcontext()
        with deferred_signals() as received, self.display.bar, closing(self.batches), files, stream:
            on_first_rank(lambda: self._open_files(files))
            self.clock = time.perf_counter()
            # The step whose losses have not been read, if there is one.
            unread: Launched | None = None
            stop = False
            while self.step < train.steps:
                launched = self.train_step(stop=bool(received))
                if unread is not None:
                    stop |= self.finish_step(unread)
                unread = launched
                self.step += 1

                last = self.step == train.steps
                save = stop or last or self.step % train.checkpoint_every == 0
                if save or self.step in self.snapshots or not runs_ahead(self.device):
                    # Checkpoints and snapshots need the weights of this step, not of one launched after it.
                    stop |= self.finish_step(unread)
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
            self.compute(packed, batch)
            if number == len(batch.micro_batches):
                # Filled on the device: copying from the host would synchronize a GPU.
                stopping = torch.full((1,), float(stop), dtype=torch.float64, device=self.device)
                # One reduction for all ranks.
                totals = torch.cat([stopping, *(objective.sums for objective in self.objectives)])
                reduction = distributed.all_reduce(totals, async_op=True)
                # While gradients are reduced, which the optimizer's step waits for.
                self.batches.prepare()
            # Except after the last micro-batch, it only counts.
            self.engine.step()
        return Launched(self.step, batch, learning_rate, *copied(totals, reduction))

    def _compute(self, packed: PackedBatch, batch: Batch) -> None:
        """Compute the losses and the gradients of a micro-batch."""
        outputs = forward(self.engine, packed)
        last = packed is batch.micro_batches[-1]
        loss = sum(objective.loss(outputs, packed, batch, last) for objective in self.objectives)
        engine.backward(self.engine, loss)

    def finish_step(self, launched: Launched) -> bool:
        """Wait for a step and log its metrics; return True if any rank had received a signal.

        If a snapshot is due after the step, the next one has not been launched yet.
        """
        launched.wait()
        stopped, *sums = launched.totals.tolist()
        batch, done = launched.batch, launched.step + 1
        metrics = self._metrics(launched, sums)
        if not math.isfinite(metrics["loss"]):
            good = find_checkpoints(self.paths.checkpoints)
            raise InputError(
                f"the loss is {metrics['loss']} at step {done}; lower the learning rates in "
                f"the section train (the last good checkpoint is {good[-1] if good else 'none yet'})"
            )

        now = time.perf_counter()
        seconds, self.clock = now - self.clock, now
        self.progress = advance(self.progress, {**metrics, "seconds": seconds})
        metrics |= {
            "tokens_per_second": batch.tokens / seconds,
            "validation_loss": None,
            "validation_solved": None,
        }
        if self.paths.snapshots is not None and done in self.snapshots:
            metrics |= self._export(step_path(self.paths.snapshots, done), self.validation)
            if self.validation:
                loss, solved = metrics["validation_loss"], metrics["validation_solved"]
                self.log(f"step {done}: validation loss {loss:.4f}, solved {solved:.1%}")

        if self.place.rank == 0:
            self.metrics.write({"step": done, **metrics, **self.progress})
        self.display.show(done, metrics["loss"], batch.tokens)
        return stopped > 0

    def _metrics(self, launched: Launched, sums: list[float]) -> dict[str, Any]:
        """Return the metrics of a step from the sums of its objectives over all ranks."""
        batch = launched.batch
        heads = getattr(self.engine.module, "named_heads", {})
        outputs = sum(head.out_features for head in heads.values())
        flops = training_flops(self.config.model, batch.tokens, batch.pairs, outputs)
        metrics: dict[str, Any] = {
            # An objective may have no metrics at some steps; a column needs a value at all of them.
            **{name: None for objective in self.objectives for name in objective.names},
            "learning_rate": launched.learning_rate,
            "fill": batch.fill,
            "tokens": batch.tokens,
            "programs": batch.programs,
        }
        for objective in self.objectives:
            size = len(objective.sums)
            own = objective.metrics(launched.step, sums[:size], batch)
            sums = sums[size:]
            flops += own.pop("flops", 0.0)
            metrics |= own
        return {**metrics, "flops": flops}

    def _matmul_rate(self) -> float:
        """Return the FLOPs per second of matrix products on all ranks, at the same time as in a step."""
        distributed.barrier()
        own = matmul_rate(self.device, dtype_of(self.config.train.precision, self.device))
        rate = torch.tensor(own, dtype=torch.float64, device=self.device)
        distributed.all_reduce(rate)
        return rate.item()

    def _open_files(self, files: ExitStack) -> None:
        """Open the files for metrics and snapshots, without what an interrupted run wrote after this step."""
        if self.paths.snapshots is not None:
            remove_snapshots(self.paths.snapshots, after=self.step)
        self.metrics = files.enter_context(closing(MetricsFile(self.paths.metrics, self.step)))

    def _save(self) -> None:
        """Save a checkpoint; the metrics before it are written by then, so a resumed run has all of them."""
        checkpoints, values = self.paths.checkpoints, {"progress": self.progress}
        checkpoint.save(self.engine, checkpoints, self.step, self.description, values)

    def _export(self, directory: Path, validation: "Validation | None" = None) -> dict[str, Any]:
        """Export the model; return what ``validation``, which the first rank has, measures."""
        weights = engine.gather(self.engine, weights_only=True)

        def export() -> dict[str, Any]:
            checkpoint.check_finite(weights, self.step)
            # Without heads.
            model = GPT(self.config.model)
            engine.load_weights(model, weights.__getitem__)
            on_gpu = self.device.type == "cuda"
            metadata = {
                "config": self.config.model_dump(),
                **({"init": self.init.model_dump(mode="json")} if self.init else {}),
                "data_digest": self.data_digest,
                "steps": self.step,
                **self.progress,
                "device": torch.cuda.get_device_name(self.device) if on_gpu else "cpu",
                "cores": torch.get_num_threads() * self.place.ranks,
                "matmul_rate": self.matmul_rate,
            }
            dtype = torch.bfloat16 if self.config.train.export_precision == "bf16" else torch.float32
            save_export(model, directory, metadata, dtype)
            return validation.measure(model.to(self.device)) if validation else {}

        return on_first_rank(export)


def build_model(run: config.Config, kinds: list[type[Objective]]) -> GPT:
    """Return the model with the heads and edits of its objectives."""

    def heads() -> dict[str, Head]:
        return {name: head for kind in kinds for name, head in kind.heads(run).items()}

    edits = [edit for kind in kinds if (edit := kind.edit(run)) is not None]
    # A model without state supervision has neither.
    if not edits and not any(kind.heads is not Objective.heads for kind in kinds):
        return GPT(run.model)
    return HeadedGPT(run.model, heads, edits)


def runs_ahead(device: torch.device) -> bool:
    """Return True if the device computes later than it is told to."""
    return device.type == "cuda"


def copied(totals: Tensor, reduction: Any) -> tuple[Tensor, Callable[[], object]]:
    """Return totals that are being reduced, on the host, and the function that waits for them."""
    if totals.device.type == "cpu":
        return totals, reduction.wait
    # Only the stream of the GPU waits here, not this process.
    reduction.wait()
    # A copy that is asked for later would also wait for the steps that are launched until then.
    copy = totals.to("cpu", non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return copy, event.synchronize


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
