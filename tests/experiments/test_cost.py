"""Declared costs of experiments, checked against counted operations."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from cadmus import experiments, isa
from cadmus.config import load_config
from cadmus.evaluate.regressions import Regressions
from cadmus.experiments import probe
from cadmus.experiments.grid import comparison_grid
from cadmus.experiments.lens import logit_lens
from cadmus.experiments.patch import patching
from cadmus.model.flops import training_flops
from cadmus.model.gpt import GPT, Block
from cadmus.model.inference import Cadmus, one_thread
from cadmus.vm.reference import run as execute
from tests.config.tiny import TINY, tiny

LENGTHS = {"equality": (12.0, 10.0), "random": (10.0, 5.0)}
"""Mean tokens of a program, including its end, and of its prompt."""


def tokens_of(name, run):
    return experiments.get(name).cost(run, LENGTHS).tokens


def test_completions_count_programs_and_equality_twice():
    run = tiny(
        dataset={"templates": {"equality": {"train": 1_000}}},
        train={"snapshots": 2},
        evaluate={"completions": {"programs": 50}, "curve": {"programs": 500}},
    )
    # Eleven instructions; 50 of 60 programs, and all of them at two snapshots.
    assert tokens_of("completions", run) == pytest.approx(2 * 50 * 11)
    assert tokens_of("curve", run) == pytest.approx(2 * 2 * 60 * 11)


def test_completions_count_subroutines_once():
    run = tiny(dataset={"templates": {"subroutines": {"train": 1_000}, "random": {"train": 100}}})
    cost = experiments.get("completions").cost(run, {"subroutines": (21.0, 15.0), "random": (10.0, 5.0)})
    assert cost.tokens == pytest.approx(50 * 20 + 50 * 9)


def test_samples_count_a_prompt_once():
    run = tiny(
        dataset={"templates": {"random": {"train": 100}}},
        evaluate={"pass_at_k": {"programs": 50, "samples": 8}},
    )
    # Ten tokens with the end, which is not read: one greedy completion, and eight samples after one prompt.
    assert tokens_of("pass_at_k", run) == pytest.approx(50 * (9 + 5 + 8 * 4))


def test_completions_count_the_evaluated_split():
    rules = {"sevens": {"values": [7], "templates": ["equality"]}}
    run = tiny(
        dataset={
            "templates": {"equality": {"train": 1_000}, "random": {"train": 100}},
            "ood": rules,
            "ood_programs": 30,
        },
        evaluate={"split": "ood"},
    )
    assert tokens_of("completions", run) == pytest.approx(2 * 30 * 11)


def test_declared_operations_match_counted_ones():
    run = tiny(
        model={"layers": 3, "width": 128, "heads": 4, "mlp": 512},
        evaluate={"lens": {"programs": 40}, "patch": {"programs": 20}},
    )
    torch.manual_seed(0)
    model = Cadmus(GPT(run.model))
    arguments = run.dataset.values, run.dataset.eval_fraction, run.seed
    ways = {
        "lens": lambda: logit_lens(model, 40, *arguments),
        "grid": lambda: comparison_grid(model, run.evaluate.grid, run.dataset, run.seed),
    }
    for name, way in ways.items():
        # The counter sees the operations of its own thread.
        with one_thread(), FlopCounterMode(display=False) as counter:
            way()
        counted = training_flops(run.model, tokens_of(name, run), pairs=0) / 3
        assert counted == pytest.approx(counter.get_total_flops(), rel=0.15), name


def test_patching_runs_half_of_the_blocks_of_the_donor(monkeypatch):
    run = tiny(model={"layers": 3, "width": 16, "heads": 2, "mlp": 16}, evaluate={"patch": {"programs": 20}})
    model = Cadmus(GPT(run.model))
    tokens = []
    for part in model.model.modules():
        if isinstance(part, Block):
            part.register_forward_hook(lambda _, given, __: tokens.append(given[0].shape[:2].numel() / 3))

    def right(prompts):
        """Predict correctly, as only such pairs count."""
        tokens.append(prompts.lengths.sum())
        logits = np.zeros((len(prompts), isa.VOCABULARY_SIZE), np.float32)
        for row, prompt in enumerate(prompts.to_strings()):
            (sign,) = (sign for sign in "<>=" if execute(prompt + sign).true)
            logits[row, isa.TOKEN_ID[sign]] = 1
        return logits

    monkeypatch.setattr(model, "next_logits", right)
    patching(model, 20, 3, run.dataset.values, run.dataset.eval_fraction, run.seed)
    assert tokens_of("patch", run) == pytest.approx(sum(tokens))


def test_declared_operations_of_the_regressions_match_counted_ones():
    run = tiny(
        model={"layers": 1, "width": 32, "heads": 2, "mlp": 8},
        dataset={"values": {"low": 1, "high": 20}},
        evaluate={
            "probe": {
                "train_programs": 1_000,
                "validation_programs": 1,
                "test_programs": 1,
                "inverse_regularisation": [0.1, 1],
            }
        },
    )
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(1, 1_000, 32, generator=generator)
    classes = torch.eye(20)[torch.randint(20, (1_000,), generator=generator)]
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        steps = [probe.solver_steps(place) for place in range(2)]
        list(Regressions(features, classes).fit([0.1, 1], steps, probe.solver_batches(1_000)))
    # X and Y, again with permuted values, two layers, eleven tokens.
    assert probe.cost(run, LENGTHS).flops / (2 * 2 * 2 * 11) == pytest.approx(
        counter.get_total_flops(), rel=0.05
    )


def test_hidden_states_over_the_memory_limit_need_more_passes(monkeypatch):
    run = load_config(TINY)
    once = tokens_of("probe", run)
    monkeypatch.setattr(probe, "STATES_BYTES", 2 * 4 * 11 * 600 * run.model.width)
    assert tokens_of("probe", run) == 2 * once
