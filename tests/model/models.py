"""A random model and random programs."""

import numpy as np
import torch

from cadmus import config, isa
from cadmus.model.gpt import GPT
from cadmus.programs import Programs, offsets_of
from cadmus.templates.random import SYMBOLS

# Threads cost these tiny models more than they save.
torch.set_num_threads(1)

SIZES = config.Model(layers=3, width=32, heads=4, mlp=48)
FLOAT_NOISE = 2e-5
"""Maximum difference of logits of about 1 between two orders of the same fp32 operations."""


def random_model(sizes: config.Model = SIZES) -> GPT:
    """Return a model with weights large enough for different answers to different prompts."""
    torch.manual_seed(5)
    model = GPT(sizes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
        model.embed_in.weight.mul_(4)
    return model.eval()


def ending_model(sizes: config.Model = SIZES) -> GPT:
    """Return a random model that ends its programs at many lengths."""
    model = random_model(sizes)
    with torch.no_grad():
        model.lm_head.weight[isa.END_ID] *= -2
    return model


def random_programs(count: int, low: int, high: int, seed: int = 1) -> Programs:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(low, high + 1, count)
    return Programs(generator.choice(np.frombuffer(SYMBOLS, np.uint8), lengths.sum()), offsets_of(lengths))


def pack(programs: list[str]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return one row of programs and padding: tokens, positions, segments."""
    tokens = [isa.TOKEN_ID[symbol] for program in programs for symbol in program] + [0] * 3
    positions = [place for program in programs for place in range(len(program))] + [0] * 3
    segments = [index for index, program in enumerate(programs) for _ in program] + [-1] * 3
    return torch.tensor([tokens]), torch.tensor([positions]), torch.tensor([segments])


def unpacked_logits(model: GPT, program: str) -> torch.Tensor:
    tokens, positions, segments = pack([program])
    length = len(program)
    return model(tokens[:, :length], positions[:, :length], segments[:, :length])[0]
