"""The training loop: train steps, save checkpoints, export the model."""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import distributed
from torch.nn import functional as F

from cadmus import config
from cadmus.common.files import as_input_error, flush
from cadmus.errors import InputError, Interrupted, RankLocalError
from cadmus.model.export import save_export
from cadmus.model.flops import training_flops
from cadmus.model.gpt import GPT
from cadmus.programs import Samples
from cadmus.tools import seed_of
from cadmus.train import checkpoint, data, engine, state
from cadmus.train.display import Display
from cadmus.train.errors import memory_errors, rank_local_errors
from cadmus.train.labels import NO_TARGET, columns, state_outputs
from cadmus.train.loader import Loader
from cadmus.train.metrics import START, StepResult, advance, metrics_writer, record
from cadmus.train.order import Pace, ordered_templates, updated
from cadmus.train.packing import PackedBatch
from cadmus.train.paths import RunPaths
from cadmus.train.rollouts import COUNTS, Rollout, Rollouts
from cadmus.train.snapshots import remove_after, snapshot_path, snapshot_steps
from cadmus.train.supervision import split, state_loss, training_model


def train(
    run: config.Config,
    read: data.Read,
    data_digest: str,
    paths: RunPaths,
    log: Callable[[str], None] = print,
) -> None:
    """Train a model and export it, resuming from the newest checkpoint if there is one.

    All ranks call this together.  Losses depend only on the config, the programs and the number of ranks,
    however often the run is interrupted.

    Args:
        run: model, training and seed.
        read: returns the training programs; called once per node, and on each rank with
            ``train.verdict``.
        data_digest: identifies the dataset in checkpoints and in the export.
        paths: where the run writes; the checkpoints stay.
        log: takes lines for the user; only the first rank calls it.

    Raises:
        InputError: the dataset is empty, a program is too long, the ranks cannot share the batch, the
            checkpoints belong to another run or are in use, the loss is NaN, or the GPU cannot be used.
            RankLocalError if only one rank fails, because of its memory or disk.
        Interrupted: SIGTERM or SIGINT; the run can be resumed.
    """
    device = engine.start_process()
    log = log if distributed.get_rank() == 0 else (lambda line: None)
    try:
        ranks = distributed.get_world_size()
        if not run.train.divides(ranks):
            raise InputError(
                f"train.batch_size: {run.train.batch_size} programs cannot be shared equally by {ranks} "
                "ranks, in whole micro-batches; start another number of ranks"
            )
        run = run.model_copy(update={"train": engine.with_precision(run.train, device)})
        with checkpoint.exclusive(paths.checkpoints, log):
            templates = ordered_templates(run.train, run.dataset)
            training_set, counts = data.share(read, run.dataset.max_length, templates)
            Training(run, training_set, counts, read, data_digest, paths, device, log).run()
    except (InputError, Interrupted) as error:
        # All ranks raise these together; after any other error the others may be waiting elsewhere.
        if not isinstance(error, RankLocalError) or distributed.get_world_size() == 1:
            engine.stop_process()
        raise
    engine.stop_process()


class Training:
    """One rank of a training, resumed from the newest checkpoint if there is one; arguments as in train()."""

    def __init__(
        self,
        run: config.Config,
        training_set: Samples,
        counts: list[int],
        read: data.Read,
        data_digest: str,
        paths: RunPaths,
        device: torch.device,
        log: Callable[[str], None],
    ) -> None:
        self.config, self.data_digest, self.paths, self.device, self.log = (
            run,
            data_digest,
            paths,
            device,
            log,
        )
        self.rank, self.world_size = distributed.get_rank(), distributed.get_world_size()
        self.description = checkpoint.describe(run, data_digest, self.world_size)
        seed = seed_of(run.seed, "train", run.train.seed)
        row_length = run.train.row_length or run.dataset.max_length + 1
        place = (self.rank, self.world_size, device)
        self.loader = Loader(training_set, seed, run.train, row_length, *place, counts)
        self.rollouts = None
        if run.train.verdict_steps:
            self.rollouts = Rollouts(read, run, seed, row_length, *place)
        self.step, self.progress = 0, START
        self.errors = [1.0] * len(counts)
        # That of the next batch, which is drawn before the errors of this step are known.
        self.pace = Pace([0] * len(counts), self.errors)

        torch.manual_seed(seed % 2**64)
        if device.type == "cuda":
            problem = engine.prepare_compiler(run.train.compile)
            if problem is not None:
                log(f"train.compile: {problem}")
        with rank_local_errors():
            latest = checkpoint.find_common_latest(paths.checkpoints)
        if latest is None:
            with memory_errors(run, "the model and its optimizer"):
                self.engine = engine.initialize(self._model(), run.train, self.world_size)
        else:
            with checkpoint.opened(latest, self.description) as saved:
                self._resume(saved)
            log(f"resuming after step {self.step} from {latest}")
        self.next_batch = self.loader.load(self.step, self.pace)

    def _model(self) -> GPT:
        model = training_model(self.config.model, self.config.train)
        # The hooks of ZeRO stage 3 break the graph of each block.
        if self.device.type == "cuda" and self.config.train.compile and self.config.train.zero_stage < 3:
            model.compile_blocks()
        return model

    def _resume(self, saved: checkpoint.Saved) -> None:
        with rank_local_errors(), memory_errors(self.config, "the model and its optimizer"):
            model = self._model()
            state.load_weights(model, saved.tensor)
            self.engine = engine.initialize(model, self.config.train, self.world_size)
            try:
                state.restore(self.engine, saved.tensor, saved.adam_steps)
            except FloatingPointError as error:
                path = saved.path / checkpoint.STATE
                raise InputError(f"{path}: weights give {error}; delete {saved.path}") from None
            counts = {len(part) for part in (*saved.order["pace"], saved.order["errors"])}
            if self.config.train.order != "mixed" and counts != {len(self.errors)}:
                path = saved.path / checkpoint.METADATA
                raise InputError(
                    f"{path}: order: must have {len(self.errors)} templates; delete {saved.path}"
                )
        self.step, self.progress = saved.step, saved.progress
        self.pace, self.errors = Pace(*saved.order["pace"]), saved.order["errors"]

    def run(self) -> None:
        """Train to the last step and export the model."""
        train, paths, first = self.config.train, self.paths, self.rank == 0
        snapshots = set() if paths.snapshots is None else snapshot_steps(train)
        if first and paths.snapshots is not None:
            with rank_local_errors():
                remove_after(paths.snapshots, self.step)
        with (
            _deferred_signals() as received,
            metrics_writer(paths.metrics, self.step, enabled=first) as write_metrics,
            Display(self.step, train.steps, self.log, visible=first) as display,
        ):
            clock = time.perf_counter()
            while self.step < train.steps:
                with memory_errors(self.config, f"step {self.step + 1}"):
                    result = self.train_step(stop=bool(received))
                if not math.isfinite(result.loss):
                    good = checkpoint.find_latest(paths.checkpoints)
                    raise InputError(
                        f"the loss is {result.loss} at step {self.step + 1}; lower the learning rates in the "
                        f"section train (the last good checkpoint is {good or 'none yet'})"
                    )
                now = time.perf_counter()
                seconds, clock = now - clock, now
                self.step += 1
                self.progress = advance(self.progress, result, seconds)
                write_metrics(record(self.step, self.progress, result, seconds))
                display.show(self.step, result.loss, result.tokens)
                if paths.snapshots is not None and self.step in snapshots:
                    self._export(snapshot_path(paths.snapshots, self.step))
                last = self.step == train.steps
                if result.stop or last or self.step % train.checkpoint_every == 0:
                    self._save()
                if result.stop and not last:
                    raise Interrupted(
                        f"stopped by a signal after step {self.step} of {train.steps}; a checkpoint is "
                        "saved, and the same command resumes from it"
                    )
        self._export(paths.export)
        self.log(f"exported the model of step {self.step} to {paths.export}")

    def train_step(self, stop: bool) -> StepResult:
        """Train on the next batch; ``stop`` if this rank received a signal."""
        train, batch = self.config.train, self.next_batch
        learning_rate = engine.set_learning_rates(self.engine, train, self.step)
        rollout = self._sample()
        # Sums over the ranks: of all losses, of those in completions, of those of the state labels, and of
        # the ranks that want to stop.
        totals = torch.zeros(4, dtype=torch.float64, device=self.device)
        # By template: the probability of wrong completion tokens, and the number of these.
        errors = torch.zeros(2, len(self.errors), dtype=torch.float64, device=self.device)
        if stop:
            totals[3] = 1
        for number, packed in enumerate(batch.micro_batches, start=1):
            losses, state_logits = self._losses(packed)
            total, completion_total = losses.sum(), (losses * packed.completion_mask.flatten()).sum()
            totals[0] += total.detach()
            totals[1] += completion_total.detach()
            loss = train.prompt_weight * total + (1 - train.prompt_weight) * completion_total
            # DeepSpeed averages over the ranks; the weights are those of the whole batch.
            loss = loss * (self.world_size / batch.weight)
            if packed.templates is not None:
                errors += _errors_by_template(packed, losses.detach(), len(self.errors))
            if packed.labels is not None:
                state_total = state_loss(state_logits, packed.labels, columns(train.state_labels))
                totals[2] += state_total.detach()
                # Every target follows an instruction, which has a label.
                loss = loss + state_total * (self.world_size * train.state_weight / batch.targets)
            if rollout is not None and number == len(batch.micro_batches):
                loss = loss + self._verdict_loss(rollout)
            self.engine.backward(loss, scale_wrt_gas=False)
            if number == len(batch.micro_batches):
                # A GPU is still computing, and the optimizer's step waits for it.
                self.pace = Pace(batch.drawn, self.errors)
                self.next_batch = self.loader.load(self.step + 1, self.pace)
            self.engine.step()
        if self.world_size > 1:
            distributed.all_reduce(totals)
        if train.order == "self_paced":
            if self.world_size > 1:
                distributed.all_reduce(errors)
            self.errors = updated(self.errors, *errors.tolist())
        total_loss, total_completion_loss, total_state_loss, stopping = totals.tolist()
        verdict, flops = (None, 0.0) if rollout is None else self._summary(rollout)
        return StepResult(
            loss=total_loss / batch.targets,
            completion_loss=total_completion_loss / batch.completion_targets,
            state_loss=total_state_loss / batch.targets if train.state_weight else None,
            learning_rate=learning_rate,
            tokens=batch.tokens,
            programs=train.batch_size,
            flops=training_flops(self.config.model, batch.tokens, batch.pairs, state_outputs(train)) + flops,
            fill=batch.fill,
            verdict=verdict,
            stop=stopping > 0,
        )

    def _losses(self, packed: PackedBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of each target, and the logits of the state labels, if any, by token."""
        logits, state_logits = split(self.engine(packed.tokens, packed.positions, packed.segments))
        losses = F.cross_entropy(logits, packed.targets.flatten(), ignore_index=NO_TARGET, reduction="none")
        return losses, state_logits

    def _sample(self) -> Rollout | None:
        """Sample completions if this step trains against the verdict."""
        train = self.config.train
        if self.rollouts is None or self.step < train.steps - train.verdict_steps:
            return None
        return self.rollouts.sample(self.engine.module, self.step)

    def _verdict_loss(self, rollout: Rollout) -> torch.Tensor:
        """Return the loss of the sampled completions: the mean over all of advantage times log-likelihood."""
        assert self.rollouts is not None
        verdict = self.rollouts.verdict
        losses, _ = self._losses(rollout.packed)
        sampled = len(verdict.questions) * verdict.prompts * verdict.samples
        return (losses * rollout.weights.flatten()).sum() * (self.world_size * verdict.weight / sampled)

    def _summary(self, rollout: Rollout) -> tuple[dict[str, dict[str, float]], float]:
        """Return the metrics of the sampled completions of all ranks, and their FLOPs."""
        assert self.rollouts is not None
        train, verdict, sizes = self.config.train, self.rollouts.verdict, self.config.model
        # Sampling is a forward pass, a third of training.
        flops = training_flops(sizes, rollout.tokens, rollout.pairs) / 3
        flops += training_flops(sizes, rollout.packed.token_count, rollout.trained_pairs)
        totals = torch.tensor([flops, *rollout.counts.ravel()], dtype=torch.float64, device=self.device)
        if self.world_size > 1:
            distributed.all_reduce(totals)
        flops, *counts = totals.tolist()
        shares = np.reshape(counts, rollout.counts.shape) / (verdict.prompts * verdict.samples)
        found = {
            question: dict(zip(COUNTS, row, strict=True))
            for question, row in zip(verdict.questions, shares.tolist(), strict=True)
        }
        if self.step in (train.steps - train.verdict_steps, train.steps - 1):
            for question, row in found.items():
                self.log(
                    f"step {self.step + 1}: {row['solved']:.1%} of {verdict.prompts * verdict.samples} "
                    f"completions of {question} solved" + ("" if row["solved"] else "; nothing to learn from")
                )
        return found, flops

    def _save(self) -> None:
        keep = self.config.train.keep_checkpoints
        with rank_local_errors():
            if self.rank == 0:
                # After a power cut, the checkpoint must not be without its metrics.
                with as_input_error(self.paths.metrics):
                    flush(self.paths.metrics)
            order = {"pace": self.pace, "errors": self.errors}
            checkpoint.save(
                self.engine, self.paths.checkpoints, self.step, self.description, self.progress, order, keep
            )

    def _export(self, directory: Path) -> None:
        weights = state.gather(self.engine, (state.WEIGHT,))
        if self.rank == 0:
            model = GPT(self.config.model)
            state.load_weights(model, lambda key, shape: weights[key])
            metadata = {
                "config": self.config.model_dump(),
                "data_digest": self.data_digest,
                "steps": self.step,
                **self.progress,
                "device": str(self.device),
                "cores": torch.get_num_threads() * self.world_size,
            }
            with rank_local_errors():
                save_export(model, self.config.model, directory, metadata)
        distributed.barrier()


def _errors_by_template(packed: PackedBatch, losses: torch.Tensor, templates: int) -> torch.Tensor:
    """Return the probability of wrong completion tokens and the number of these: shape (2, templates)."""
    assert packed.templates is not None
    asked = packed.completion_mask.flatten()
    template = packed.templates[packed.segments.flatten()[asked]]
    wrong = -torch.expm1(-losses[asked].double())
    sums = [torch.bincount(template, counted, templates) for counted in (wrong, torch.ones_like(wrong))]
    return torch.stack(sums)


@contextmanager
def _deferred_signals() -> Iterator[list[int]]:
    """Collect SIGTERM and SIGINT; all ranks act on them after the same step."""
    received: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda got, frame: received.append(got)) for number in numbers]
    try:
        yield received
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
