"""The files that a training writes."""

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from cadmus.common.files import as_input_error, replacing
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
        metrics = self.metrics
        if metrics.is_char_device():
            # It keeps no lines, which a resumed run needs.
            checkpoints = self.checkpoints.absolute()
            metrics = checkpoints.with_name(f"{checkpoints.name}-metrics.jsonl")
        return replace(self, metrics=_partial(metrics), snapshots=snapshots)

    def publish(self) -> None:
        """Put the files of :meth:`partial` into place, then remove them and the checkpoints.

        Until everything is in place, nothing is removed: after an error or a kill, the same command exports
            the last checkpoint again. The checkpoints go before the partial metrics, without which a resumed
            run would lose steps.

        Raises:
            InputError: a file cannot be written or removed.
        """
        partial = self.partial()
        with replacing(self.metrics) as temporary:
            shutil.copyfile(partial.metrics, temporary)
        if self.snapshots is not None and partial.snapshots is not None:
            remove_after(self.snapshots, 0)
            with as_input_error(self.snapshots):
                for snapshot in find_snapshots(partial.snapshots):
                    shutil.copytree(snapshot, self.snapshots / snapshot.name, copy_function=_link)
        checkpoint.remove_all(self.checkpoints)
        with as_input_error(partial.metrics):
            partial.metrics.unlink()
            if partial.snapshots is not None:
                shutil.rmtree(partial.snapshots)


def _link(source: str, target: str) -> None:
    """Link a file, or copy it on a file system without links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.stem}.partial{path.suffix}")
