"""Training against the verdict: the model completes training prompts and learns from what solves them.

Every step samples several completions of each prompt and rewards those that solve the question
(:mod:`cadmus.evaluate.questions`). The advantage of a completion is its reward minus the mean of its prompt:
a policy gradient with group baselines, as in GRPO, without its scaling. Prompts whose completions are all
solved, or none, teach nothing.

These completions are counted (:data:`COUNTS`):

============= ====================================================================
``solved``    solve the question
``lenient``   are verified without solving it
``dropping``  have the instruction ``_``
``truncated`` do not end
``held_out``  make a program of another split, from which nothing is learned
``distinct``  differ from the earlier ones of their prompt
============= ====================================================================
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from cadmus import config, isa
from cadmus.dataset.splits import TRAIN, split_of
from cadmus.errors import InputError
from cadmus.evaluate.criteria import Completed
from cadmus.evaluate.questions import questions_of
from cadmus.model.flops import causal_pairs
from cadmus.model.gpt import GPT
from cadmus.model.inference import Cadmus
from cadmus.programs import Samples, join, stack
from cadmus.tools import seed_of
from cadmus.train.data import Read
from cadmus.train.packing import PackedBatch, pack_batch

POOL = 200_000
"""Training programs of each template, from the first, whose prompts are asked."""
COUNTS = ("solved", "lenient", "dropping", "truncated", "held_out", "distinct")


class Rollout(NamedTuple):
    """The completions of a step, those of this rank.

    Attributes:
        packed: the different completions to learn from, each after its prompt.
        weights: float32, shape (R, L), the advantage of the completion that each target is in, else 0.
        counts: int64, shape (questions, len(COUNTS)).
        tokens, pairs: sampled, as :func:`cadmus.model.flops.training_flops` counts them. A prompt counts
            once.
        trained_pairs: pairs in ``packed``.
    """

    packed: PackedBatch
    weights: torch.Tensor
    counts: np.ndarray
    tokens: int
    pairs: int
    trained_pairs: int


class Rollouts:
    """Samples completions of training prompts, grades them and packs those to learn from.

    Args:
        read: returns the training programs of some templates.
        run: its sections ``train.verdict`` and ``dataset``.
        seed: decides the prompts and, with the weights, the completions.
        row_length: tokens in a packed row.
        rank, ranks: index of this process, and number of processes.
        device: of the model.

    Raises:
        InputError: the dataset has no prompts of a question.
    """

    def __init__(
        self,
        read: Read,
        run: config.Config,
        seed: int,
        row_length: int,
        rank: int,
        ranks: int,
        device: torch.device,
    ) -> None:
        self.verdict, self._dataset = run.train.verdict, run.dataset
        self._seed, self._row_length, self._rank, self._device = seed, row_length, rank, device
        self._prompts = self.verdict.prompts // ranks
        self._asked = [_asked(name, run.dataset, read) for name in self.verdict.questions]
        # Longer completions are rare, but a step would wait for them most of its time.
        self._longest = [int((of.programs.lengths - of.prompt_length).max()) for of in self._asked]
        self._fp32 = GPT(run.model) if device.type == "cpu" and run.train.precision == "bf16" else None

    def sample(self, model: GPT, step: int) -> Rollout:
        """Sample and grade the completions of a step, counted from 0; they depend on the weights."""
        seed = seed_of(self._seed, "rollouts", step, self._rank)
        rng = np.random.default_rng(seed)
        k, questions = self.verdict.samples, self.verdict.questions
        asked = [of.take(rng.integers(len(of), size=self._prompts).repeat(k)) for of in self._asked]
        references = stack([of.programs for of in asked])
        prompt_length = np.concatenate([of.prompt_length for of in asked]).astype(np.int64)
        prompts = references.prefixes(prompt_length)
        limits = prompt_length + np.repeat(self._longest, self._prompts * k)
        completions, ended = Cadmus(self._for_sampling(model)).complete(
            prompts,
            np.minimum(limits, self._dataset.max_length),
            temperature=self.verdict.temperature,
            seed=seed,
        )
        programs = join(prompts, completions)
        kept = split_of(programs, self._dataset.eval_fraction) == TRAIN
        texts = completions.to_strings()

        graded = [
            self._grade(
                name,
                Completed(
                    references.take(rows),
                    prompt_length[rows],
                    completions.take(rows),
                    ended[rows],
                    self._dataset,
                ),
                kept[rows],
            )
            for name, rows in zip(questions, np.split(np.arange(len(texts)), len(questions)), strict=True)
        ]
        reward = np.concatenate([of_question for of_question, _ in graded]).reshape(-1, k)
        advantage = (reward - reward.mean(1, keepdims=True)).ravel()

        # A completion that was sampled several times is computed once.
        same: dict[tuple[int, str], list[int]] = defaultdict(list)
        for row in np.flatnonzero(kept & (advantage != 0)).tolist():
            same[row // k, texts[row]].append(row)
        # The ranks compute together, so each has at least one.
        rows = np.array([copies[0] for copies in same.values()] or [0])
        advantages = [advantage[copies].sum() for copies in same.values()] or [0.0]
        packed = pack_batch(programs.take(rows), prompt_length[rows], self._row_length).to(self._device)
        every = np.arange(0, len(texts), k)
        pairs, of_prompts = causal_pairs(programs.lengths + 1), causal_pairs(prompt_length)
        return Rollout(
            packed,
            self._weights(packed, advantages, ended[rows]),
            np.array([counts for _, counts in graded]),
            tokens=int(prompt_length[every].sum() + (completions.lengths + 1).sum()),
            pairs=int(pairs.sum() - of_prompts.sum() + of_prompts[every].sum()),
            trained_pairs=int(pairs[rows].sum()),
        )

    def _for_sampling(self, model: GPT) -> GPT:
        """Return the model, on a CPU in fp32: attention to few tokens takes half again as long in bf16."""
        if self._fp32 is None:
            return model
        weights = dict(model.named_parameters())
        with torch.no_grad():
            for name, parameter in self._fp32.named_parameters():
                parameter.copy_(weights[name])
        return self._fp32

    def _grade(self, name: str, of: Completed, kept: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
        """Return the reward of each completion of a question, and the counts."""
        question, k = questions_of(config.TEMPLATE_OF[name])[name], self.verdict.samples
        solved = question.solves(of)
        # To fit the examples of an induction is half of the way.
        reward = solved if question.fits is None else (solved + question.fits(of).astype(float)) / 2
        groups = zip(*[iter(of.texts)] * k, strict=True)
        return reward, (
            int(solved.sum()),
            int((of.verified & ~solved).sum()),
            int(of.uses_drop.sum()),
            int((~of.ended).sum()),
            int((~kept).sum()),
            sum(len(set(group)) for group in groups),
        )

    def _weights(self, packed: PackedBatch, advantages: Sequence[float], ended: np.ndarray) -> torch.Tensor:
        # The padding has segment -1: the last entry.
        of_program = torch.tensor([*advantages, 0.0], dtype=torch.float32, device=self._device)
        has_end = torch.tensor([*ended.tolist(), False], device=self._device)
        sampled = packed.completion_mask & (has_end[packed.segments] | (packed.targets != isa.END_ID))
        return of_program[packed.segments] * sampled


def _asked(name: str, dataset: config.Dataset, read: Read) -> Samples:
    template = config.TEMPLATE_OF[name]
    if not getattr(dataset.templates, template).train:
        raise InputError(
            f"train.verdict.questions: {name} is asked of programs of {template}, and there are none; set "
            f"dataset.templates.{template}.train or drop the question"
        )
    parts: list[Samples] = []
    for part in read([template]):
        parts.append(part.take(np.arange(min(len(part), POOL - sum(map(len, parts))))))
        if sum(map(len, parts)) == POOL:
            break
    programs = Samples.concat(parts)
    rows, prompt_length = questions_of(template)[name].cut(programs)
    if not len(rows):
        raise InputError(
            f"train.verdict.questions: no training program of {template} has a prompt of {name}; raise "
            f"dataset.templates.{template}.train or drop the question"
        )
    return Samples(programs.programs.take(rows), prompt_length)
