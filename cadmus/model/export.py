"""Exported models: a directory of safetensors weights and metadata that ``transformers`` loads as well.

:func:`load_export` reads ``meta.json``, the other JSON files are for ``transformers``. A model that
``save_pretrained`` of ``transformers`` saved has no ``meta.json``; ``config.json`` has its sizes then.

Prompts are padded with the end token. A padding token of its own would need an id of its own, and all 65 ids
are instructions: a 66th would be a 66th output of the model. Attention masks hide the padding. Labels must be
padded by length, because masking those of the padding token hides the end (docs/integrations.md).
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import Field, ValidationError, field_validator, model_validator
from safetensors.torch import load_file, save_file
from torch.overrides import TorchFunctionMode

from cadmus import config, isa, store
from cadmus.config import LONGEST_PROGRAM, Config, Dataset, Model, Train
from cadmus.config.fields import Above0, Count, NonNegative, PlainText, Positive
from cadmus.errors import InputError, reading
from cadmus.model import CARD, CONFIG, GENERATION_CONFIG, METADATA, TOKENIZER, TOKENIZER_CONFIG, WEIGHTS
from cadmus.model.gpt import GPT, INITIAL_DEVIATION, LAYER_NORM_EPSILON, ROTARY_BASE
from cadmus.records import Header, Record

MAX_POSITIONS = 256  # for transformers; rotary positions have no limit
LARGEST_OUTPUT = 1e9  # of a layer, far above that of any training; experiments square outputs in fp32

_FIX = "save the model again"


class Metadata(Record):
    """``meta.json`` of an export, or what ``config.json`` of a model saved by ``transformers`` says of it."""

    cadmus: Header | None = None
    model: Model
    config: Config | None = None
    """Of the training, with default experiments."""
    max_length: Annotated[Positive, Field(le=LONGEST_PROGRAM)] | None = None
    parameters: Positive | None = None
    data_digest: PlainText | None = None
    steps: Positive | None = None
    loss: NonNegative | None = None
    completion_loss: NonNegative | None = None
    tokens: Count | None = None
    programs: Count | None = None
    flops: NonNegative | None = None
    seconds: NonNegative | None = None
    device: PlainText | None = None
    cores: Positive | None = None
    matmul_rate: Above0 | None = None
    init: "Metadata | None" = None
    """Of the model that the training started from."""
    weights: Literal["bfloat16", "float16"] | None = None
    """Type of the weights in the file; None is fp32, in which all are loaded."""

    @field_validator("config", mode="before")
    @classmethod
    def _keep_what_training_read(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        # Experiments may be newer or older than the model, which does not depend on them. Earlier versions
        # have a section llm.
        values = {name: section for name, section in values.items() if name not in ("evaluate", "llm")}
        if isinstance(train := values.get("train"), dict):
            # Models of earlier versions have fields that are gone, such as `order`.
            fields = Train.model_fields
            values["train"] = {name: value for name, value in train.items() if name in fields}
        return values

    @model_validator(mode="after")
    def _check(self) -> "Metadata":
        if self.cadmus and WEIGHTS not in self.cadmus.files:
            raise ValueError(f"cadmus.files: must have {WEIGHTS}")
        if self.config and self.config.model != self.model:
            raise ValueError("config.model: must be the same as model")
        return self

    @property
    def longest_program(self) -> int:
        """Maximum number of instructions in a program of the model's dataset."""
        if self.config:
            return self.config.dataset.max_length
        return self.max_length or Dataset().max_length


class Snapshot(Metadata):
    """``meta.json`` of a model during its training."""

    steps: Positive
    tokens: Count
    flops: NonNegative


class Trained(Snapshot):
    """``meta.json`` of a model of ``cadmus train``, as its card describes it."""

    cadmus: Header
    config: Config
    parameters: Positive
    data_digest: PlainText
    programs: Count
    seconds: Above0
    device: PlainText
    cores: Positive


M = TypeVar("M", bound=Metadata)


def save_export(
    model: GPT, directory: Path | str, metadata: dict[str, Any], dtype: torch.dtype = torch.float32
) -> None:
    """Export a model; an earlier export in ``directory`` is replaced, without its card.

    ``meta.json`` seals the weights and names their ``dtype`` if they are not fp32, in which all are loaded;
    ``metadata`` are more entries for it, such as the config.
    """
    # A link to an export stays.
    directory = Path(os.path.realpath(directory))
    check_export(directory)
    noted = config.validate({"model": model.sizes, **metadata}, Metadata, str(directory / METADATA))
    named = _named_weights(model).items()
    weights = {name: weight.detach().to("cpu", dtype).contiguous() for name, weight in named}
    files = {
        CONFIG: transformers_config(model.sizes),
        GENERATION_CONFIG: {
            "do_sample": False,
            "eos_token_id": isa.END_ID,
            "pad_token_id": isa.END_ID,
            # Room for every completion, its end included. max_length would count the padding as well.
            "max_new_tokens": noted.longest_program,
        },
        TOKENIZER: _tokenizer(),
        TOKENIZER_CONFIG: {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_input_names": ["input_ids", "attention_mask"],
            "eos_token": isa.END,
            "pad_token": isa.END,
            # A completion starts after the last token of a row.
            "padding_side": "left",
            "model_max_length": MAX_POSITIONS,
            "clean_up_tokenization_spaces": False,
        },
    }
    described = {
        "limits": isa.LIMITS,
        "model": model.sizes.model_dump(),
        "parameters": sum(weight.numel() for weight in weights.values()),
        **({} if dtype == torch.float32 else {"weights": str(dtype).removeprefix("torch.")}),
        **metadata,
    }
    card = directory / CARD
    # It describes the model that is replaced.
    if (directory / METADATA).exists() and card.exists() and store.is_own_card(card):
        card.unlink()
    with store.replacing(directory / WEIGHTS) as temporary:
        mode = temporary.stat().st_mode
        save_file(weights, temporary, metadata={"format": "pt"})
        # safetensors makes its file private.
        temporary.chmod(mode)
        # Before the files that it seals: if the process is killed here, the export counts as damaged.
        store.write_json(directory / METADATA, "model", described, {WEIGHTS: temporary})
        for name, content in files.items():
            store.write_text(directory / name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def check_export(directory: Path | str) -> None:
    """Check that :func:`save_export` can write to ``directory``: nothing but an export is in it."""
    directory = Path(directory).absolute()
    store.check_writable(directory, directory=True)
    paths = directory.iterdir() if directory.is_dir() else ()
    names = {path.name for path in paths if not path.name.startswith(store.TEMPORARY)}
    # Snakemake deletes an export file by file, but not its card.
    if names - {CARD} and METADATA not in names:
        raise InputError(f"{directory}: not empty and not a model export; choose another directory")


def check_snapshots(directory: Path, name: str) -> None:
    """Check that a directory, in which the run ``name`` replaces snapshots, has none of another run."""
    for path in sorted(directory.glob(f"step-*/{METADATA}")):
        # A killed training leaves a part.
        with suppress(InputError):
            noted = read_metadata(path.parent).config
            if noted is not None and noted.name != name:
                problem = f"a snapshot of the run {noted.name}, which {name} would replace"
                break
    else:
        return
    raise InputError(f"{path.parent}: {problem}; move it, or choose another directory")


def read_metadata(directory: Path | str) -> Metadata:
    """Read ``meta.json``; for a model saved by ``transformers``, derive its ``model`` and ``max_length``."""
    return read_metadata_as(Metadata, directory)


def read_metadata_as(model: type[M], directory: Path | str, fix: str | None = None) -> M:
    """Read ``meta.json`` as a narrower type than :class:`Metadata`; ``fix`` ends the error if it is none."""
    path = Path(directory) / METADATA
    if path.exists():
        return store.read_json(path, "model", model, fix)
    if not path.with_name(CONFIG).exists():
        raise InputError(f"{directory} is not a model export: {path}: no such file")
    derived = _derived_metadata(path.with_name(CONFIG), path.with_name(GENERATION_CONFIG))
    return config.validate(derived, model, str(path), fix)


def _derived_metadata(path: Path, generation: Path) -> dict[str, Any]:
    saved = _read_foreign(path)
    # Ids of tokens may mean other instructions, and the sizes would not tell.
    if saved.get("isa_digest") != isa.digest():
        raise InputError(
            f"{path}: isa_digest: must be {isa.digest()}, that of this instruction set, got "
            f"{saved.get('isa_digest')}; train again"
        )
    try:
        sizes = config.Model.model_validate({name: saved.get(key) for name, key in _KEYS_OF_SIZES.items()})
    except ValidationError:
        keys = ", ".join(_KEYS_OF_SIZES.values())
        raise InputError(f"{path}: {keys}: not the sizes of a Cadmus model; {_FIX}") from None
    for key, value in transformers_config(sizes).items():
        # Versions of transformers differ in which of the keys of rotary positions they write.
        if key in _ARCHITECTURE and saved.get(key, value if key in _ROTARY else None) != value:
            raise InputError(
                f"{path}: {key}: must be {json.dumps(value)}, got {json.dumps(saved.get(key))}; "
                "Cadmus runs only models of its own architecture"
            )
    most = _read_foreign(generation).get("max_new_tokens") if generation.exists() else None
    if most is not None and not (isinstance(most, int) and 1 <= most <= config.LONGEST_PROGRAM):
        raise InputError(f"{generation}: max_new_tokens: must be 1 to {config.LONGEST_PROGRAM}, got {most}")
    return {"model": sizes, "max_length": most}


def _read_foreign(path: Path) -> dict[str, Any]:
    with reading(path, _FIX):
        return dict(json.loads(path.read_bytes()))


def weights_digest(directory: Path | str) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of an export's weights, which identify it in results."""
    path = Path(directory) / WEIGHTS
    with reading(path, _FIX):
        return store.digest_of(path)[:16]


def read_init(run: Config) -> Metadata | None:
    """Return the metadata of the model that a training starts from, after checking that it can."""
    if run.train.init is None:
        return None
    noted = read_metadata(run.train.init)
    problem = f"train.init: {run.train.init}: its"
    for name, size in run.model:
        if size != (theirs := getattr(noted.model, name)):
            raise InputError(f"{problem} model.{name} is {theirs}; set the same, not {size}")
    ours = run.dataset.eval_fraction
    if noted.config and (theirs := noted.config.dataset.eval_fraction) != ours:
        fix = f"it may have learned programs that {ours} holds out; set the same"
        raise InputError(f"{problem} dataset.eval_fraction is {theirs}; {fix}")
    return noted


def load_export(directory: Path | str, device: torch.device | str = "cpu") -> GPT:
    """Load the model of an export for inference in fp32."""
    metadata = read_metadata(directory)
    path = Path(directory) / WEIGHTS
    if metadata.cadmus:
        store.check_digest(path, metadata.cadmus.files[WEIGHTS], "model")
    with reading(path, _FIX):
        tensors = load_file(path)
    # Without memory, as sizes that the weights do not have could take all of it.
    with torch.device("meta"), _NoInitialValues():
        model = GPT(metadata.model)
    expected = _named_weights(model)
    for name in sorted(expected.keys() ^ tensors.keys()):
        problem = "missing" if name in expected else "unexpected"
        raise InputError(f"{path}: {name}: {problem} tensor; {_FIX}")
    weights = {
        name.removeprefix("gpt_neox."): _fitting(path, name, tensors[name], like.shape)
        for name, like in expected.items()
    }
    # assign, because tensors without memory take no copy; not strict, as the file has a tied matrix once.
    model.load_state_dict(weights, strict=False, assign=True)
    if model.sizes.tied:  # assigning has put another tensor in the place of the shared one
        model.lm_head.weight = model.embed_in.weight
    model = model.eval().requires_grad_(False)
    _check_outputs(path, model)
    return model.to(device)


def _fitting(path: Path, name: str, weight: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Return a weight in fp32, in memory of its own."""
    if not weight.is_floating_point():
        raise InputError(f"{path}: {name}: has type {weight.dtype}, not a type of floats; {_FIX}")
    # A fine-tuned model may have a row for a padding token after those of the instructions.
    rows = shape[0] if name in ("gpt_neox.embed_in.weight", "lm_head.weight") else len(weight)
    if weight[:rows].shape != shape:
        raise InputError(f"{path}: {name}: has shape {tuple(weight.shape)}, {CONFIG} needs {tuple(shape)}")
    weight = weight[:rows].to(torch.float32, copy=True)
    if not weight.isfinite().all():
        raise InputError(f"{path}: {name}: has a weight that is NaN or infinite; {_FIX}")
    return weight


@torch.inference_mode()
def _check_outputs(path: Path, model: GPT) -> None:
    """Check that no output overflows, on a program of all instructions: finite weights may be huge."""
    tokens = torch.arange(isa.VOCABULARY_SIZE)[None]
    visible = torch.ones(1, isa.VOCABULARY_SIZE, isa.VOCABULARY_SIZE, dtype=torch.bool).tril()
    x = torch.empty(0)
    for layer, x in enumerate(model.residual_stream(tokens, tokens, visible)):
        # NaN is not below it either.
        if not (x.abs() < LARGEST_OUTPUT).all():
            raise InputError(f"{path}: the output of layer {layer} is NaN or too large; {_FIX}")
    if not (model.logits(x).abs() < LARGEST_OUTPUT).all():
        raise InputError(f"{path}: the logits are NaN or too large; {_FIX}")


class _NoInitialValues(TorchFunctionMode):
    """Weights are made without initial values: those on the meta device import torch._dynamo, for 2 s."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        initializes = getattr(func, "__module__", "") == "torch.nn.init"
        return kwargs["tensor"] if initializes else func(*args, **kwargs)


def _named_weights(model: GPT) -> dict[str, torch.Tensor]:
    """Return the weights of a model by their names in the file; of a tied matrix, one."""
    return {
        name if name.startswith("lm_head.") else f"gpt_neox.{name}": weight
        for name, weight in model.state_dict().items()
        if not (model.sizes.tied and name == "lm_head.weight")
    }


def transformers_config(sizes: config.Model) -> dict[str, Any]:
    """Return ``config.json`` of a GPT-NeoX model."""
    # Nothing but Cadmus knows full attention.
    own = sizes.attention == "full"
    return {
        "architectures": ["Cadmus" if own else "GPTNeoXForCausalLM"],
        "model_type": "cadmus" if own else "gpt_neox",
        "vocab_size": isa.VOCABULARY_SIZE + own,
        **{key: getattr(sizes, name) for name, key in _KEYS_OF_SIZES.items()},
        "attention_bias": True,
        "use_parallel_residual": False,
        "layer_norm_eps": LAYER_NORM_EPSILON,
        "initializer_range": INITIAL_DEVIATION,
        "max_position_embeddings": MAX_POSITIONS,
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
        # transformers before version 5 reads the two keys after this one instead.
        "rope_parameters": {"rope_type": "default", "rope_theta": ROTARY_BASE, "partial_rotary_factor": 1.0},
        "rotary_emb_base": ROTARY_BASE,
        "rotary_pct": 1.0,
        "bos_token_id": None,
        "eos_token_id": isa.END_ID,
        "pad_token_id": isa.END_ID,
        "torch_dtype": "float32",
        # save_pretrained of transformers keeps it.
        "isa_digest": isa.digest(),
    }


_KEYS_OF_SIZES = {
    "layers": "num_hidden_layers",
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "mlp": "intermediate_size",
    "tied": "tie_word_embeddings",
    "activation": "hidden_act",
}
_ROTARY = {"rope_parameters", "rotary_emb_base", "rotary_pct"}
_ARCHITECTURE = {"model_type", "use_parallel_residual", "attention_bias", "layer_norm_eps", *_ROTARY}
"""Keys of ``config.json`` that are the same for all models."""


def _tokenizer() -> dict[str, Any]:
    """Return ``tokenizer.json`` of a word-level tokenizer whose words are single characters."""
    end = {"id": isa.END_ID, "content": isa.END, "single_word": False, "lstrip": False, "rstrip": False}
    split = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{**end, "normalized": False, "special": True}],
        "normalizer": None,
        "pre_tokenizer": split,
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        # Not in the vocabulary, so that a character that is not an instruction is an error.
        "model": {"type": "WordLevel", "vocab": isa.TOKEN_ID, "unk_token": "<unknown>"},
    }
