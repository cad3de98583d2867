"""Checkpoints to resume a training from.

A checkpoint is a directory such as ``step-00001000`` with the training state, as full tensors by name
(:mod:`cadmus.train.engine`), and ``meta.json``, which is sealed and has the digest of the state. It is
written last: a directory with it can be resumed from, with any number of ranks; one without it, which a
killed process leaves, does not count.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout
from pydantic import model_validator
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from cadmus import config, store
from cadmus.config.fields import Count, Positive
from cadmus.errors import InputError, reading
from cadmus.model.export import weights_digest
from cadmus.records import Record, Sealed
from cadmus.train import paths
from cadmus.train.engine import ReadTensor, count_adam_steps, gather
from cadmus.train.metrics import Progress
from cadmus.train.muon import ROW_SQUARES
from cadmus.train.ranks import on_first_rank

FREE = {"checkpoint_every", "snapshots", "ranks", "micro_batch_size", "zero_stage", "compile", "cuda_graph"}
"""Fields of the section train that a resumed run may change: losses change by rounding at most, and by the
sampled completions, which depend on the ranks."""


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Lock a directory of checkpoints, which is created if missing; all ranks enter this together."""
    with ExitStack() as stack:

        def lock() -> None:
            with store.as_input_error(directory):
                directory.mkdir(parents=True, exist_ok=True)
                try:
                    stack.enter_context(FileLock(directory / paths.LOCK, timeout=0))
                except Timeout:
                    raise InputError(
                        f"{directory}: another process is training with these checkpoints; wait or stop it"
                    ) from None

        on_first_rank(lock)
        yield


def describe(run: config.Config, data_digest: str) -> dict[str, Any]:
    """Return everything that the losses of a run depend on, as a flat mapping for its checkpoints."""
    values = run.model_dump(mode="json", include={"seed", "model", "train"})
    train = {key: value for key, value in values["train"].items() if key not in FREE}
    # Another model may lie there by now.
    if (init := train.pop("init")) is not None:
        train["init"] = weights_digest(init)
    return {
        "data": data_digest,
        "seed": values["seed"],
        **{f"model.{key}": value for key, value in values["model"].items()},
        **{f"train.{key}": value for key, value in train.items()},
    }


def counted(description: dict[str, Any], source: Path) -> dict[str, Any]:
    """Return what counts of a description, which may be of a version of Cadmus with fewer fields."""
    counts = dict(description)
    for name, section in (("model", config.Model), ("train", config.Train)):
        keys = {key: f"{name}.{key}" for key in section.model_fields}
        known = {key: counts.pop(field) for key, field in keys.items() if field in counts}
        values = config.what_counts(config.validate(known, section, f"{source}: {name}"))
        counts |= {keys[key]: value for key, value in values.items()}
    return counts


def check_finite(tensors: dict[str, Tensor], step: int) -> None:
    """Check the training state after a step: its loss is that of the weights before."""
    bad = next((name for name, tensor in tensors.items() if not tensor.isfinite().all()), None)
    if bad is not None:
        problem = f"{bad} is not finite after step {step}"
        raise InputError(f"{problem}; lower the learning rates in the section train")


def save(
    engine: Any, directory: Path, step: int, description: dict[str, Any], values: dict[str, Any]
) -> None:
    """Save a checkpoint and remove older ones; all ranks call this together.

    ``description`` is from :func:`describe`, and ``values`` are JSON values that :class:`Saved` returns.
    """
    tensors = gather(engine)

    def write() -> None:
        check_finite(tensors, step)
        checkpoint = paths.step_path(directory, step)
        state = checkpoint / paths.STATE
        steps = {"step": step, "adam_steps": count_adam_steps(engine)}
        metadata = {**steps, "description": description, "values": values}
        try:
            with store.as_input_error(checkpoint):
                paths.remove_checkpoint(checkpoint)
                checkpoint.mkdir(exist_ok=True)
                save_file(tensors, state)
                # Metadata last: a checkpoint that has them is complete.
                store.write_json(checkpoint / paths.METADATA, "checkpoint", metadata, {state.name: state})
        except InputError:
            # Free the space of an incomplete checkpoint: a full disk is the usual reason.
            paths.remove_checkpoint(checkpoint)
            raise
        paths.remove_checkpoints(directory, paths.KEPT_CHECKPOINTS)

    on_first_rank(write)


class Values(Record):
    """The content of a checkpoint besides the training state."""

    progress: Progress


class Metadata(Sealed):
    """``meta.json`` of a checkpoint."""

    step: Positive
    adam_steps: Count
    description: dict[str, Any]
    values: Values

    @model_validator(mode="after")
    def _check(self) -> "Metadata":
        if paths.STATE not in self.cadmus.files:
            raise ValueError(f"cadmus.files: must have {paths.STATE}")
        if self.adam_steps > self.step:
            raise ValueError(f"adam_steps: must be at most step {self.step}, got {self.adam_steps}")
        return self


class Saved(NamedTuple):
    """A checkpoint: its directory, steps done, steps of Adam, and the values that were saved."""

    path: Path
    step: int
    adam_steps: int
    values: dict[str, Any]

    @contextmanager
    def tensors(self, model: nn.Module) -> Iterator[ReadTensor]:
        """Open the training state of ``model``; yield the function that reads a tensor of it."""
        shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
        fix = store.KINDS["checkpoint"]
        with reading(self.path / paths.STATE, fix):
            file = safe_open(self.path / paths.STATE, "pt")

        def read(name: str) -> Tensor:
            with reading(self.path / paths.STATE, fix):
                tensor: Tensor = file.get_tensor(name)  # type: ignore[no-untyped-call]
            kind, _, parameter = name.partition("/")
            shape = shapes[parameter][:1] if kind == ROW_SQUARES else shapes[parameter]
            if tensor.shape != shape or not tensor.is_floating_point() or not tensor.isfinite().all():
                wanted = f"must be finite numbers of shape {tuple(shape)}"
                raise InputError(f"{self.path / paths.STATE}: {name}: {wanted}; {fix}")
            return tensor

        with file:
            yield read


def find_latest(directory: Path, description: dict[str, Any]) -> Saved | None:
    """Return the newest checkpoint, which the first rank checks; all ranks call this together."""

    def check() -> Saved | None:
        checkpoints = paths.find_checkpoints(directory)
        if not checkpoints:
            return None
        path = checkpoints[-1]
        metadata = store.read_json(path / paths.METADATA, "checkpoint", Metadata)
        if metadata.step != paths.step_of(path):
            raise InputError(f"{path}: is of step {metadata.step}; give it its name again, or delete it")
        now = counted(description, path)
        saved = counted(metadata.description, path)
        for key in {**now, **saved}:
            if saved.get(key) != now.get(key):
                raise InputError(
                    f"{path} has {key} {metadata.description.get(key)}, this run has {description.get(key)}; "
                    f"delete {directory} or give the run another name"
                )
        store.check_digest(path / paths.STATE, metadata.cadmus.files[paths.STATE], "checkpoint")
        return Saved(path, metadata.step, metadata.adam_steps, metadata.values.model_dump())

    return on_first_rank(check)
