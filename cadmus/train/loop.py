"""The training loop: train steps, save checkpoints, export the model."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import distributed

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
from cadmus.train.batches import Loader
from cadmus.train.compiling import compile_blocks
from cadmus.train.labels import state_outputs
from cadmus.train.metrics import START, Display, MetricsFile, advance
from cadmus.train.objectives import NextToken, Objective, StateSupervision, SupervisedGPT, forward
from cadmus.train.paths import RunPaths, find_checkpoints, remove_snapshots, snapshot_steps, step_path
from cadmus.train.ranks import deferred_signals, on_first_rank
from cadmus.train.validation import UNKNOWN, Validation
from cadmus.train.verdict import Verdict


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
    ranks = distributed.get_world_size()
    log = log if distributed.get_rank() == 0 else (lambda line: None)
    try:
        if not run.train.divides(ranks):
            raise InputError(
                f"train.batch_size: {run.train.batch_size} programs cannot be shared equally by {ranks} "
                "ranks, in whole micro-batches; start another number of ranks"
            )
        run = run.model_copy(update={"train": engine.with_precision(run.train, device)})
        with checkpoint.exclusive(paths.checkpoints), memory_errors(run, ranks):
            Training(run, read, data_digest, paths, device, log, held_out).run()
    except (InputError, Interrupted) as error:
        # All ranks raise these together; after any other error the others may be waiting elsewhere.
        if not isinstance(error, RankLocalError) or ranks == 1:
            engine.stop_process()
        raise
    engine.stop_process()


class Training:
    """One rank of a training, after ``step`` steps; arguments as in train()."""

    def __init__(
        self,
        run: config.Config,
        read: data.Read,
        data_digest: str,
        paths: RunPaths,
        device: torch.device,
        log: Callable[[str], None],
        held_out: Callable[[], Samples] | None,
    ) -> None:
        self.config, self.data_digest, self.paths = run, data_digest, paths
        self.device, self.log = device, log
        self.rank, self.ranks = distributed.get_rank(), distributed.get_world_size()
        place = (self.rank, self.ranks, device)
        self.description = checkpoint.describe(run, data_digest)

        training_set = data.share(read)
        seed = seed_of(run.seed, "train", run.train.seed)
        row_length = run.train.row_length or run.dataset.max_length + 1
        self.loader = Loader(training_set, seed, run, row_length, *place)
        self.step, self.progress = 0, START
        self.validation: Validation | None = None
        if held_out is not None and paths.snapshots is not None and self.rank == 0:
            self.validation = Validation(held_out(), run.dataset)

        if run.model.mixer != config.ATTENTION:
            mixer.check(run.model.mixer, run.model.width, run.model.heads)
        torch.manual_seed(seed % 2**64)
        model = SupervisedGPT(run.model, run.train) if run.train.state_weight else GPT(run.model)
        problem = compile_blocks(model, run, device)
        if problem is not None:
            log(f"train.compile: {problem}")
        saved = checkpoint.find_latest(paths.checkpoints, self.description)
        if saved is None:
            self.engine = engine.initialize(model, run.train, device)
        else:
            with saved.tensors(model) as tensors:
                engine.load_weights(model, tensors)
                self.engine = engine.initialize(model, run.train, device)
                engine.restore(self.engine, tensors, saved.adam_steps)
            self.step, self.progress = saved.step, saved.values["progress"]
            log(f"resuming after step {self.step} from {saved.path}")

        self.objectives: list[Objective] = [NextToken(run.train, self.ranks, device)]
        if run.train.state_weight:
            self.objectives.append(StateSupervision(run.train, self.ranks, device))
        if run.train.verdict_steps:
            self.objectives.append(Verdict(self.engine, read, run, seed, row_length, *place, log))
        self.next_batch = self.loader.load(self.step)
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
        train, paths, first = self.config.train, self.paths, self.rank == 0
        snapshots = set() if paths.snapshots is None else snapshot_steps(train)
        display = Display(self.step, train.steps, self.log, visible=first)
        with deferred_signals() as received, display.bar:
            on_first_rank(self._open_files)
            clock = time.perf_counter()
            while self.step < train.steps:
                metrics, stop = self.train_step(stop=bool(received))
                if not math.isfinite(metrics["loss"]):
                    good = find_checkpoints(paths.checkpoints)
                    raise InputError(
                        f"the loss is {metrics['loss']} at step {self.step + 1}; lower the learning rates in "
                        f"the section train (the last good checkpoint is {good[-1] if good else 'none yet'})"
                    )
                now = time.perf_counter()
                seconds, clock = now - clock, now
                self.step += 1
                self.progress = advance(self.progress, {**metrics, "seconds": seconds})
                tokens = metrics["tokens"]
                metrics |= {"tokens_per_second": tokens / seconds, **UNKNOWN}
                if paths.snapshots is not None and self.step in snapshots:
                    metrics |= self._export(step_path(paths.snapshots, self.step), self.validation)
                    if self.validation:
                        loss, solved = metrics["validation_loss"], metrics["validation_solved"]
                        self.log(f"step {self.step}: validation loss {loss:.4f}, solved {solved:.1%}")
                if first:
                    self._write({"step": self.step, **metrics, **self.progress})
                display.show(self.step, metrics["loss"], tokens)
                last = self.step == train.steps
                if stop or last or self.step % train.checkpoint_every == 0:
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

    def train_step(self, stop: bool) -> tuple[dict[str, Any], bool]:
        """Train on the next batch; ``stop`` is True if this rank received a signal.

        Returns the metrics of the step, and whether any rank received a signal.
        """
        train, batch = self.config.train, self.next_batch
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
                # A GPU is still computing, and the optimizer's step waits for it.
                self.next_batch = self.loader.load(self.step + 1)
            self.engine.step()

        reduction.wait()
        stopped, *sums = totals.tolist()
        metrics: dict[str, Any] = {
            "loss": math.nan,
            "completion_loss": math.nan,
            "state_loss": None,
            "verdict": None,
            "verdict_solved": None,
            "learning_rate": learning_rate,
            "fill": batch.fill,
            "tokens": batch.tokens,
            "programs": train.batch_size,
            "flops": training_flops(self.config.model, batch.tokens, batch.pairs, state_outputs(train)),
        }
        for objective in self.objectives:
            size = len(objective.sums)
            found = objective.metrics(sums[:size], batch)
            metrics |= found | {"flops": metrics["flops"] + found.get("flops", 0.0)}
            sums = sums[size:]
        return metrics, stopped > 0

    def _write(self, metrics: dict[str, Any]) -> None:
        """Write the metrics of a step to the file and to DeepSpeed's monitors."""
        self.metrics.write(metrics)
        if self.engine.monitor.enabled:
            numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
            events = [(f"train/{name}", value, self.step) for name, value in numbers.items()]
            self.engine.monitor.write_events(events)

    def _open_files(self) -> None:
        """Open the files for metrics and snapshots, without what an interrupted run wrote after this step."""
        if self.paths.snapshots is not None:
            remove_snapshots(self.paths.snapshots, after=self.step)
        self.metrics = MetricsFile(self.paths.metrics, self.step)

    def _save(self) -> None:
        if self.rank == 0:
            self.metrics.flush()
        place, keep = self.paths.checkpoints, self.config.train.keep_checkpoints
        checkpoint.save(self.engine, place, self.step, self.description, {"progress": self.progress}, keep)

    def _export(self, directory: Path, validation: Validation | None = None) -> dict[str, Any]:
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
                "device": str(self.device),
                "cores": torch.get_num_threads() * self.ranks,
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
