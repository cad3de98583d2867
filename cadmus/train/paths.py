"""The files that a training writes."""

from dataclasses import dataclass, replace
from pathlib import Path

from cadmus.common.files import as_input_error
from cadmus.train import checkpoint
from cadmus.train.snapshots import find_snapshots, remove_after


@dataclass(frozen=True)
class RunPaths:
    """The files of a training.

    Attributes:
        checkpoints: directory of this run's checkpoints; training resumes from the newest.
        export: directory of the exported model.
        metrics: JSON Lines file, see :mod:`cadmus.train.metrics`.
        snapshots: directory of the exports along the way, see :mod:`cadmus.train.snapshots`; None for none.
    """

    checkpoints: Path
    export: Path
    metrics: Path
    snapshots: Path | None = None

    def partial(self) -> "RunPaths":
        """The paths to train with until the model is exported.

        Snakemake deletes the outputs of a failed job, so a run that can be resumed writes beside them.
        """
        snapshots = self.snapshots and _partial(self.snapshots)
        return replace(self, metrics=_partial(self.metrics), snapshots=snapshots)

    def publish(self) -> None:
        """Remove the checkpoints and move the files of :meth:`partial` into place.

        The checkpoints go first: a run that resumed from one without its metrics would lose steps.

        Raises:
            InputError: a file cannot be moved or removed.
        """
        checkpoint.remove_all(self.checkpoints)
        partial = self.partial()
        with as_input_error(self.metrics):
            partial.metrics.replace(self.metrics)
        if self.snapshots is not None and partial.snapshots is not None:
            remove_after(self.snapshots, 0)
            with as_input_error(self.snapshots):
                self.snapshots.mkdir(parents=True, exist_ok=True)
                for snapshot in find_snapshots(partial.snapshots):
                    snapshot.rename(self.snapshots / snapshot.name)
                partial.snapshots.rmdir()


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.stem}.partial{path.suffix}")
