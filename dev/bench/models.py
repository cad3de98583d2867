"""Speed of trained models against other libraries: completion and probes."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from cadmus import config, isa
from cadmus.dataset.sampler import sample
from cadmus.evaluate.comparisons import sample_comparisons
from cadmus.experiments.probe import Settings, prefix_ids, score
from cadmus.model.inference import Cadmus
from cadmus.model.tokens import BYTE_OF_TOKEN, TOKEN_OF_BYTE
from cadmus.programs import Programs, stack
from cadmus.templates import TEMPLATES
from cadmus.tools import cores, progress
from dev.bench import flat
from dev.measure import ROOT, Facts, median_seconds

SHIPPED = ROOT / "models/laptop"
EACH = 64
"""Prompts of each template."""
REPEATS = 3
PROBED = Settings()
ITERATIONS = 10_000
"""More than a fit of scikit-learn needs."""


def decode(model: Path = SHIPPED) -> Facts:
    """Complete test prompts of all templates greedily, in one batch and in fp32, as transformers does."""
    ours = Cadmus.load(model, batch_size=EACH * len(TEMPLATES))
    max_length = config.Dataset().max_length
    drawn = [sample(config.Dataset(), 0, template, "test", 0, EACH) for template in TEMPLATES]
    prompts = stack([of.programs.prefixes(of.prompt_length.astype(np.int64)) for of in drawn])
    generate = _transformers(model, prompts, max_length)
    found: dict[str, list[str]] = {}

    def complete() -> None:
        completions, ended = ours.complete(prompts, max_length)
        texts = zip(completions.to_strings(), ended, strict=True)
        found["cadmus"] = [text + isa.END * bool(end) for text, end in texts]

    def complete_with_transformers() -> None:
        found["transformers"] = generate()

    seconds = median_seconds({"cadmus": complete, "transformers": complete_with_transformers}, REPEATS)
    same = [a == b for a, b in zip(found["cadmus"], found["transformers"], strict=True)]
    facts = {
        "parameters": sum(parameter.numel() for parameter in ours.model.parameters()),
        "programs": len(prompts),
        "repeats": REPEATS,
        "threads": torch.get_num_threads(),
        "ratio": round(seconds["transformers"] / seconds["cadmus"], 2),
        "same_completions": round(float(np.mean(same)), 4),
    }
    rows = {name: {"programs_per_second": round(len(prompts) / taken, 1)} for name, taken in seconds.items()}
    return flat(facts, rows)


def _transformers(directory: Path, prompts: Programs, max_length: int) -> Callable[[], list[str]]:
    """Return a function that completes the prompts with ``transformers``."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(directory)
    width = int(prompts.lengths.max())
    tokens = np.full((len(prompts), width), isa.END_ID)
    # Prompts are padded on the left.
    seen = np.arange(width) >= width - prompts.lengths[:, None]
    tokens[seen] = TOKEN_OF_BYTE[prompts.data]
    mask = torch.from_numpy(seen.astype(np.int64))
    room = max_length - prompts.lengths

    def complete() -> list[str]:
        whole = model.generate(
            input_ids=torch.from_numpy(tokens),
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=int(room.max()),
        )
        texts = []
        for row, most in zip(whole[:, width:].numpy(), room, strict=True):
            body, end, _ = BYTE_OF_TOKEN[row].tobytes().decode("ascii").partition(isa.END)
            # A program of maximum length is cut off before its end.
            texts.append(body + end if len(body) < most else body[:most])
        return texts

    return complete


def probe(model: Path = SHIPPED) -> Facts:
    """Probe X on the output of the final block, for all tokens and regularisations.

    scikit-learn uses its default tolerance after a ``StandardScaler`` and fits one token and regularisation
    per core at a time.
    """
    features, programs, targets = probed(model, PROBED)
    hits: dict[str, np.ndarray] = {}

    def ours() -> None:
        hits["cadmus"], _ = score(torch.from_numpy(features), targets, prefix_ids(programs), PROBED)

    def theirs() -> None:
        hits["scikit_learn"] = _scikit_learn(features, targets)

    seconds = median_seconds({"cadmus": ours, "scikit_learn": theirs}, 1)
    difference = np.abs(hits["cadmus"] - hits["scikit_learn"]) / PROBED.test_programs
    facts = {
        "train_programs": PROBED.train_programs,
        "tokens": len(features),
        "regularisations": len(PROBED.inverse_regularisation),
        "width": features.shape[-1],
        "cores": cores(),
        "ratio": round(seconds["scikit_learn"] / seconds["cadmus"], 2),
        "mean_difference": round(float(difference.mean()), 4),
        "largest_difference": round(float(difference.max()), 4),
    }
    rows = {
        name: {
            "seconds": round(taken, 2),
            "accuracy": round(float(hits[name].mean()) / PROBED.test_programs, 4),
        }
        for name, taken in seconds.items()
    }
    return flat(facts, rows)


def probed(model: Path, settings: Settings) -> tuple[np.ndarray, Programs, np.ndarray]:
    """Return hidden states, float32 of shape (tokens, programs, width), their programs and X of each."""
    dataset = config.Dataset()
    count = settings.train_programs + settings.validation_programs + settings.test_programs
    rng = np.random.default_rng(0)
    programs, targets = sample_comparisons(
        rng, count, dataset.values, dataset.eval_fraction, "evaluate.probe"
    )
    states = np.concatenate([states[-1] for _, states in Cadmus.load(model).hidden_states(programs)])
    return np.ascontiguousarray(states.swapaxes(0, 1)), programs, targets["x"]


def _scikit_learn(features: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the correct test predictions per token, with the best regularisation in validation."""
    strengths = PROBED.inverse_regularisation
    fits = [(token, c) for token in range(len(features)) for c in strengths]
    with threadpool_limits(1):
        hits = Parallel(cores(), prefer="threads")(
            delayed(_fit)(features[token], classes, c) for token, c in progress("scikit-learn", fits)
        )
    on_validation, on_test = np.array(hits).reshape(len(features), len(strengths), 2).transpose(2, 0, 1)
    return on_test[np.arange(len(features)), on_validation.argmax(1)]


def _fit(features: np.ndarray, classes: np.ndarray, c: float) -> tuple[int, int]:
    fitted, validated = PROBED.train_programs, PROBED.validation_programs
    standard = StandardScaler().fit(features[:fitted]).transform(features)
    regression = LogisticRegression(C=c, max_iter=ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        regression.fit(standard[:fitted], classes[:fitted])
    hits = regression.predict(standard[fitted:]) == classes[fitted:]
    return int(hits[:validated].sum()), int(hits[validated:].sum())
