"""Checkpoints for another number of ranks, through DeepSpeed's universal checkpoint.

DeepSpeed's converter knows the two moments of Adam.  In bf16 the momentum of its Muon lies as a moment does,
so it goes through the converter as one of them.  In fp32 it does not: :func:`convertible` says no to that.
"""

import contextlib
import io
from argparse import Namespace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

_MOMENTS = ("exp_avg", "exp_avg_sq")
_MOMENTUM = "momentum_buffer"


def convertible(train: dict[str, Any]) -> bool:
    """Whether checkpoints of a training, the section train of its config, can be converted."""
    return bool(train["optimizer"] == "adam" or train["precision"] == "bf16")


def convert(checkpoint: Path, target: Path) -> None:
    """Make of a checkpoint of DeepSpeed's one that an engine with ``load_universal`` can load.

    Args:
        checkpoint: as ``engine.save_checkpoint`` wrote it.
        target: a directory that does not exist; other things are made beside it.
    """
    from deepspeed.checkpoint import ds_to_universal

    target.mkdir(parents=True)
    with TemporaryDirectory(dir=target.parent) as name, contextlib.ExitStack() as silence:
        source = Path(name)
        momenta = _rename_momentum(checkpoint, source)
        # It tells of all that it does.
        silence.enter_context(contextlib.redirect_stdout(io.StringIO()))
        silence.enter_context(contextlib.redirect_stderr(io.StringIO()))
        ds_to_universal.main(
            Namespace(
                input_folder=str(source),
                output_folder=str(target),
                # More processes would import torch once more each, for a second's work.
                num_extract_workers=1,
                num_merge_workers=1,
                keep_temp_folder=False,
                strict=True,
                inject_missing_state=True,
            )
        )
    first, second = _MOMENTS
    for parameter in momenta:
        state = target / "zero" / parameter
        (state / f"{first}.pt").rename(state / f"{_MOMENTUM}.pt")
        (state / f"{second}.pt").unlink()


def _rename_momentum(checkpoint: Path, target: Path) -> set[str]:
    """Copy a checkpoint, Muon's momentum as Adam's first moment; returns the parameters that have one."""
    parameters: set[str] = set()
    for file in checkpoint.glob("*.pt"):
        (target / file.name).symlink_to(file.absolute())
    for file in checkpoint.glob("*_optim_states.pt"):
        contents = torch.load(file, "cpu", weights_only=False)
        optimizer = contents["optimizer_state_dict"]
        states = optimizer.get("base_optimizer_state", {}).get("state", {})
        muon = [group for group, state in states.items() if _MOMENTUM in state]
        for group in muon:
            momentum = states[group].pop(_MOMENTUM)
            states[group].update(zip(_MOMENTS, (momentum, torch.zeros_like(momentum)), strict=True))
            parameters.update(optimizer["param_slice_mappings"][group])
        if muon:
            (target / file.name).unlink()
            torch.save(contents, target / file.name)
    return parameters
