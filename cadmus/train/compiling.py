"""``torch.compile`` for the blocks of a training: when it pays, and what happens if it fails.

Compiling takes seconds on every rank and makes a step up to a fifth faster. It needs a compiler, which can be
missing or broken, and a cache, which a killed process can damage. So a model of one block is tried first, and
a training never fails because of it.
"""

import os
import warnings

import torch
from torch import distributed

from cadmus import config
from cadmus.model.flops import parameter_count
from cadmus.model.gpt import GPT
from cadmus.model.rate import dtype_of

TRIAL_ROWS = 11
"""Rows of a trial: torch.compile specializes a dimension that equals a model size, and this is none."""
WORTH = 1e11
"""Parameters times programs of a training from which it is compiled on a CPU: about 1e13 FLOPs."""


def pays(run: config.Config, device: torch.device) -> bool:
    """Return True if the training gains more from compiled blocks than compiling takes."""
    train = run.train
    work = parameter_count(run.model) * train.steps * train.batch_size
    return train.compile and (device.type != "cpu" or work >= WORTH)


def compile_blocks(model: GPT, run: config.Config, device: torch.device) -> str | None:
    """Compile the blocks of a model that no engine wraps yet, if that pays and all ranks can.

    All ranks call this together, with the precision of the training resolved. The first of a node compiles,
    with all cores, and the others read what it has compiled. Returns why nothing is compiled although it
    should be, or None.
    """
    if not pays(run, device):
        return None
    problem = _try(run, device)
    failed = torch.tensor(float(problem is not None), device=device)
    distributed.all_reduce(failed, distributed.ReduceOp.MAX)
    if not failed.item():
        # Another shape may be compiled later; if that fails, it runs eagerly.
        torch._dynamo.config.suppress_errors = True
        model.compile_blocks()
        return None
    # A killed process leaves files that cannot be loaded.
    cache = os.environ["TORCHINDUCTOR_CACHE_DIR"]
    fix = f"delete {cache}, in case it is damaged, and start again"
    return f"{problem or 'another rank cannot'}; the blocks are not compiled, which makes steps slower; {fix}"


def _try(run: config.Config, device: torch.device) -> str | None:
    """Compile one block, whose graph all of them share; return the first line of the error, or None."""
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        # PyTorch's own, which its import sets, is temporary, and a first start takes twenty seconds longer.
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(caches, "cadmus", "compiled")
    from torch._functorch import config as autograd
    from torch._inductor import config as inductor

    # Otherwise a graph with a backward pass of its own is compiled again in each process.
    autograd.autograd_cache_allow_custom_autograd_functions = True
    # Otherwise it tries the instructions of the CPU in its cache, and a damaged file there means scalar ones.
    inductor.cpp.vec_isa_ok = True
    # Of the length of the training's rows, as a graph for a GPU depends on what divides it.
    tokens = torch.zeros((TRIAL_ROWS, run.row_length), dtype=torch.int64, device=device)
    dtype = dtype_of(run.train.precision, device)
    # Tracing reads attributes that warn.
    with warnings.catch_warnings(action="ignore"), torch._dynamo.config.patch(suppress_errors=False):
        try:
            trial = GPT(run.model.model_copy(update={"layers": 1})).to(device, dtype)
            trial.compile_blocks()
            trial(tokens, tokens, tokens).sum().backward()
        # A compiler fails in any way.
        except Exception as error:
            return next(iter(str(error).strip().splitlines()), type(error).__name__)
    return None
