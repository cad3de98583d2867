"""Reinforcement learning: the model completes training prompts and learns from what solves them.

A program can be wrong in a single token, and a task has many right answers; the next-token loss knows
neither. So the last steps also learn from the model's own completions: each step samples several of every
prompt, and rewards those that solve its question (:mod:`cadmus.evaluate.questions`), by executing them. The
advantage of a completion is its reward minus the mean of its prompt: a policy gradient with group baselines,
as in GRPO, without its scaling. Prompts whose completions are all solved, or none, teach nothing.

These completions are counted (:data:`COUNTS`):

============= ====================================================================
``solved``    solve the question
``lenient``   are verified without solving it
``dropping``  have the instruction ``_``
``truncated`` do not end
``held_out``  make a program of another split, or of an OOD rule; nothing is learned from it
``distinct``  differ from the earlier ones of their prompt
============= ====================================================================
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cadmus import config, isa
from cadmus.config import SPLITS
from cadmus.dataset.splits import TRAIN, matches, split_of
from cadmus.errors import InputError, naming
from cadmus.evaluate.criteria import Completed
from cadmus.evaluate.posterior import credence
from cadmus.evaluate.questions import questions_of
from cadmus.model.flops import causal_pairs, training_flops
from cadmus.model.gpt import GPT
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs, Samples, concat, join
from cadmus.tools import seed_of
from cadmus.train.data import ReadSplit
from cadmus.train.loader import Batch
from cadmus.train.objectives.objective import Objective, Outputs, Setting, forward
from cadmus.train.objectives.reward import OwnReward
from cadmus.train.packing import Drawn, PackedBatch, pack_batch

FEWEST = 1_000
"""Prompts of a question from which those of a step are drawn, if there are as many and fewer are asked."""
COUNTS = ("solved", "lenient", "dropping", "truncated", "held_out", "distinct")


class Rollout(NamedTuple):
    """The completions of a step, those of this rank."""

    packed: PackedBatch
    """The different completions to learn from, each after its prompt."""
    weights: Tensor
    """float32, shape (R, L), the advantage of the completion that each target is in, else 0."""
    counts: np.ndarray
    """int64, shape (questions, len(COUNTS))."""
    flops: float
    """Of sampling and of learning."""


class Sampler:
    """A copy of the model in training, without the layers for state supervision."""

    def __init__(self, setting: Setting) -> None:
        run, device = setting.run, setting.place.device
        self._engine = setting.engine
        # The blocks of the engine's model may be compiled for training. On a CPU this one is fp32: attention
        # to few tokens takes half again as long in bf16.
        bf16 = device.type == "cuda" and run.train.precision == "bf16"
        self._model = GPT(run.model).to(device, torch.bfloat16 if bf16 else torch.float32)

    def complete(
        self, step: int, prompts: Programs, limits: np.ndarray, seed: int
    ) -> tuple[Programs, np.ndarray]:
        """Sample a completion of each prompt before a step, counted from 0, and whether it ended."""
        self._model.load_state_dict(self._engine.module.state_dict(), strict=False)
        with naming(f"step {step + 1}", "lower the learning rates in the section train"):
            return Cadmus(self._model).complete(prompts, limits, temperature=1.0, seed=seed)


class Reinforcement(Objective):
    """Samples completions of training prompts, grades them and learns from them in the last steps.

    The seed decides the prompts and, with the weights, the completions; the log gets a line about the first
    and the last of these steps.
    """

    names = ("reinforcement", "reinforcement_solved")

    def __init__(self, setting: Setting) -> None:
        run = setting.run
        self.settings = run.train.reinforcement
        self.questions = self.settings.asked(run)
        self.size = 1 + len(self.questions) * len(COUNTS)
        super().__init__(setting)
        self._engine, self._run, self._seed = setting.engine, run, setting.seed
        self._rank, self._log = setting.place.rank, setting.log
        self._rollout: Rollout | None = None
        self._prompts = self.settings.prompts // self.ranks
        asked = max(FEWEST, len(run.train.reinforcement_steps) * self.settings.prompts)
        self._pools = [_pool(name, asked, setting.read) for name in self.questions]
        # Longer completions are rare, but a step would wait for them most of its time.
        self._longest = [int((pool.programs.lengths - pool.prompt_length).max()) for pool in self._pools]
        self._sampler = Sampler(setting)
        self._own = None
        if self.settings.function is not None:
            with naming("train.reinforcement.function"):
                self._own = OwnReward(self.settings.function)
                # A mistake should not wait for the first of these steps.
                for name, pool in zip(self.questions, self._pools, strict=True):
                    first = pool.take(np.arange(1))
                    lengths = first.prompt_length.astype(np.int64)
                    self._own(name, Completed.own(first.programs, lengths, run.dataset))

    def start(self, step: int) -> None:
        super().start(step)
        self._rollout = None
        if step in self._run.train.reinforcement_steps:
            rollout = self._rollout = self.sample(step)
            totals = [rollout.flops, *rollout.counts.ravel()]
            self.sums = torch.tensor(totals, dtype=torch.float64, device=self.device)

    def loss(self, outputs: Outputs, packed: PackedBatch, batch: Batch, last: bool) -> Tensor | float:
        """Return the mean of advantage times log-likelihood of completions, with the last micro-batch."""
        if self._rollout is None or not last:
            return 0.0
        losses = forward(self._engine, self._rollout.packed).losses
        sampled = len(self.questions) * self.settings.prompts * self.settings.samples
        total = (losses * self._rollout.weights.flatten()).sum()
        return total * (self.ranks * self.settings.weight / sampled)

    def metrics(self, step: int, sums: list[float], batch: Batch) -> dict[str, Any]:
        steps = self._run.train.reinforcement_steps
        if step not in steps:
            return {}
        flops, *counts = sums
        sampled = self.settings.prompts * self.settings.samples
        fractions = np.reshape(counts, (len(self.questions), len(COUNTS))) / sampled
        by_question = {
            question: dict(zip(COUNTS, row, strict=True))
            for question, row in zip(self.questions, fractions.tolist(), strict=True)
        }
        if step in (steps[0], steps[-1]):
            for question, row in by_question.items():
                learned = "" if row["solved"] else "; nothing to learn from"
                said = f"{row['solved']:.1%} of {sampled} completions of {question} solved"
                self._log(f"step {step + 1}: {said}{learned}")
        solved = float(np.mean([row["solved"] for row in by_question.values()]))
        return {"reinforcement": by_question, "reinforcement_solved": solved, "flops": flops}

    def sample(self, step: int) -> Rollout:
        """Sample and grade the completions of a step, counted from 0; they depend on the weights."""
        seed = seed_of(self._seed, "rollouts", step, self._rank)
        rng = np.random.default_rng(seed)
        k, questions, dataset = self.settings.samples, self.questions, self._run.dataset
        # Every prompt k times in a row: a group whose mean is the baseline.
        samples = [pool.take(rng.integers(len(pool), size=self._prompts).repeat(k)) for pool in self._pools]
        references = concat([of_question.programs for of_question in samples])
        prompt_length = np.concatenate([of_question.prompt_length for of_question in samples])
        prompt_length = prompt_length.astype(np.int64)
        prompts = references.prefixes(prompt_length)
        limits = prompt_length + np.repeat(self._longest, self._prompts * k)
        limits = np.minimum(limits, dataset.max_length)
        completions, ended = self._sampler.complete(step, prompts, limits, seed)
        programs = join(prompts, completions)
        # The model may write a test program; learning from it would leak.
        kept = split_of(programs, dataset.eval_fraction) == TRAIN
        texts = completions.to_strings()

        graded = []
        for name, rows in zip(questions, np.split(np.arange(len(texts)), len(questions)), strict=True):
            # Rules of what the prompt alone decides do not match: the prompts are of training programs.
            rules = dataset.rules_for(config.TEMPLATE_OF[name]).values()
            of_text = [rule for rule in rules if rule.prompt_length is None]
            kept[rows] &= ~matches(of_text, Samples(programs.take(rows), prompt_length[rows])).any(0)
            written = completions.take(rows), ended[rows]
            completed = Completed(references.take(rows), prompt_length[rows], *written, dataset)
            graded.append(self._grade(name, completed, kept[rows]))
        reward = np.concatenate([of_question for of_question, _ in graded]).reshape(-1, k)
        # Without dividing by the deviation, which would favor prompts that are nearly solved or hopeless.
        advantage = (reward - reward.mean(1, keepdims=True)).ravel()

        # A completion that was sampled several times is computed once.
        same: dict[tuple[int, str], list[int]] = defaultdict(list)
        for row in np.flatnonzero(kept & (advantage != 0)).tolist():
            same[row // k, texts[row]].append(row)
        # The ranks compute together, so each has at least one.
        rows = np.array([copies[0] for copies in same.values()] or [0])
        advantages = [advantage[copies].sum() for copies in same.values()] or [0.0]
        learned = Drawn.of(programs.take(rows), prompt_length[rows])
        packed = pack_batch(learned, self._run.row_length).to(self.device)

        # A prompt is computed once. Sampling is a forward pass, a third of training.
        every = np.arange(0, len(texts), k)
        pairs, of_prompts = causal_pairs(programs.lengths), causal_pairs(prompt_length)
        tokens = int(prompt_length[every].sum() + completions.lengths.sum())
        sampled_pairs = int(pairs.sum() - of_prompts.sum() + of_prompts[every].sum())
        flops = training_flops(self._run.model, tokens, sampled_pairs) / 3
        flops += training_flops(self._run.model, packed.token_count, int(pairs[rows].sum()))
        counts = np.array([counts for _, counts in graded])
        return Rollout(packed, self._weights(packed, advantages, ended[rows]), counts, flops)

    def _grade(self, name: str, completed: Completed, kept: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
        """Return the reward of each completion of a question, and the counts."""
        question, k = questions_of(config.TEMPLATE_OF[name])[name], self.settings.samples
        solved = question.solves(completed)
        reward = solved.astype(float)
        if self._own is not None:
            reward = self._own(name, completed)
        elif question.fits is not None:
            # The mean of what agreement with a reference would give, over all that the examples allow.
            rows = np.flatnonzero(question.fits(completed))
            prompts = completed.prompts.take(rows).to_strings()
            texts = [completed.texts[row] for row in rows]
            reward = np.zeros(len(solved))
            reward[rows] = credence(prompts, texts, completed.dataset, SPLITS[TRAIN])
        lenient = completed.verified & ~solved
        counted = (solved, lenient, completed.uses_drop, ~completed.ended, ~kept)
        # In the order of COUNTS.
        groups = np.reshape(completed.texts, (-1, k))
        distinct = sum(len(set(group)) for group in groups.tolist())
        return reward, (*(int(mask.sum()) for mask in counted), distinct)

    def _weights(self, packed: PackedBatch, advantages: Sequence[float], ended: np.ndarray) -> Tensor:
        # The padding has segment -1: the last entry.
        by_program = torch.tensor([*advantages, 0.0], dtype=torch.float32, device=self.device)
        has_end = torch.tensor([*ended.tolist(), False], device=self.device)
        # A completion that was cut off got its end from packing; the model did not sample it.
        sampled = packed.completion_mask & (has_end[packed.segments] | (packed.targets != isa.END_ID))
        return by_program[packed.segments] * sampled


OBJECTIVE = Reinforcement


def _pool(name: str, asked: int, read: ReadSplit) -> Samples:
    """Return at least so many training programs that are asked a question, or all of them."""
    template = config.TEMPLATE_OF[name]
    pool: list[Samples] = []
    with naming(f"train.reinforcement.questions: {name}"):
        parts = (part.take(rows) for part in read([template]) for rows in _chunks(len(part), asked))
        # To choose fair prompts takes longer than to train on them.
        while sum(map(len, pool)) < asked and (part := next(parts, None)) is not None:
            rows, prompt_length = questions_of(template)[name].cut(part)
            pool.append(Samples(part.programs.take(rows), prompt_length))
    if not sum(map(len, pool)):
        raise InputError(
            f"train.reinforcement.questions: no training program of {template} has a prompt of {name}; raise "
            f"dataset.templates.{template}.train or drop the question"
        )
    return Samples.concat(pool)


def _chunks(programs: int, size: int) -> list[np.ndarray]:
    return np.array_split(np.arange(programs), range(size, programs, size))
