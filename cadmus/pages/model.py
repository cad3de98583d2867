"""The model card of an export, written from files only."""

import html
import json
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData

from cadmus import experiments, isa
from cadmus.config import TEMPLATES
from cadmus.errors import InputError
from cadmus.evaluate.baselines.policies import BASELINES
from cadmus.evaluate.questions import definitions, title
from cadmus.figures import table3_accuracy, tables
from cadmus.model.export import Trained, read_metadata_as, weights_digest
from cadmus.pages import LICENSE, TAGS, card
from cadmus.store import read_results

# Fields of the config section train that do not affect what is learned.
OPERATIONAL = {"checkpoint_every", "snapshots", "micro_batch_size", "zero_stage"}

TEXT = Path(__file__).with_name("model.md").read_text(encoding="utf-8")


def model_card(directory: Path, completions: Path) -> str:
    """Return the model card of an export, from its ``completions``."""
    noted = read_metadata_as(Trained, directory, "only models from `cadmus train` have cards")
    config, weights = noted.config, weights_digest(directory)
    graded, origin = read_results(completions, experiments.table("completions"))
    for key, ours in (("model_digest", weights), ("data_digest", noted.data_digest)):
        if getattr(origin, key) != ours:
            problem = f"is {getattr(origin, key)}, but that of {directory} is {ours}"
            raise InputError(f"{completions}: {key}: {problem}; evaluate this model on its own dataset")
    trained_on = sum(getattr(config.dataset.templates, name).train for name in TEMPLATES)
    below = table3_accuracy.below(table3_accuracy.data(graded))
    ood = ", ".join(f"`{name}`" for name in config.dataset.ood)
    text = TEXT.format(
        config=config,
        noted=noted,
        vocabulary=isa.VOCABULARY_SIZE,
        model=_listed(config.model.model_dump()),
        weights=weights,
        precision=noted.weights or "fp32",
        start=_start(noted),
        trained=f"{trained_on:,}",
        epoch=noted.programs / trained_on,
        rules=f" Programs that match the rules {ood} were excluded as well." if ood else "",
        dataset_digest=config.dataset_digest(),
        device=f"{noted.cores} CPU cores" if noted.device == "cpu" else noted.device,
        tokens_per_second=noted.tokens / noted.seconds,
        flops_per_second=noted.flops / noted.seconds,
        versions=", ".join(f"{name} {version}" for name, version in noted.cadmus.versions.items()),
        recipe=_listed(config.train.model_dump(exclude=OPERATIONAL)),
        questions="\n".join(
            f"- *{name}*, the prompt ends {prompt}: {condition}." for name, prompt, condition in definitions()
        ),
        below=f"{below}\n\n" if below else "",
        baselines=", ".join(map(title, BASELINES)),
        accuracy=tables.render(table3_accuracy.table(graded)).strip(),
    )
    data = ModelCardData(
        license=LICENSE,
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=[*TAGS, "gpt_neox"],
        metrics=["accuracy", "exact_match"],
    )
    return card(data.to_yaml(), text)


def _start(noted: Trained) -> str:
    """Return what the models were trained on from which this one started, the last one first."""
    lines, init = "", noted.init
    while init is not None:
        run = f"run {init.config.name}, " if init.config else ""
        amount = f"{init.programs or 0:,} programs of the dataset `{init.data_digest}`"
        lines += f"- started from: {run}{init.steps} steps, {amount}\n"
        init = init.init
    return lines


def _listed(values: dict[str, Any]) -> str:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    # The path train.init may be any text.
    return "\n".join(f"- {key.replace('_', ' ')}: {html.escape(text, False)}" for key, text in texts.items())
