"""Exported models: a directory of safetensors weights and metadata that ``transformers`` loads as well.

:func:`load_export` reads ``meta.json``, the other JSON files are for ``transformers``. A model that
``save_pretrained`` of ``transformers`` saved has no ``meta.json``; ``config.json`` has its sizes then.

Prompts are padded with the end token. A padding token of its own would need an id of its own, and all 65 ids
are instructions: a 66th would be a 66th output of the model. Attention masks hide the padding.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Any, NotRequired

import torch
from pydantic import Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch.overrides import TorchFunctionMode
from typing_extensions import TypedDict

from cadmus import config, isa
from cadmus.common.files import check_writable, replacing_directory
from cadmus.common.provenance import commit, versions
from cadmus.config.fields import STRICT, Above0, Count, NonNegative, PlainText, Positive
from cadmus.errors import InputError, near_path, reading
from cadmus.model import (
    CARD,
    CONFIG,
    FILES,
    GENERATION_CONFIG,
    METADATA,
    TOKENIZER,
    TOKENIZER_CONFIG,
    WEIGHTS,
)
from cadmus.model.gpt import GPT, INITIAL_DEVIATION, LAYER_NORM_EPSILON, ROTARY_BASE

_VOCABULARY_WEIGHTS = ("gpt_neox.embed_in.weight", "lm_head.weight")
MAX_POSITIONS = 256
"""For ``transformers``; rotary positions have no limit."""
LARGEST = 1e4
"""Magnitude of the largest weight: far above trained ones, and far below those whose activations overflow."""
FLOATS = ("F32", "BF16", "F16")
"""Types of weights that can be loaded, as safetensors calls them; exports are fp32."""

_FIX = "export the model again"
_Length = Annotated[Positive, Field(le=config.LONGEST_PROGRAM)]


class _Dataset(TypedDict):
    __pydantic_config__ = STRICT  # type: ignore[misc]

    max_length: NotRequired[_Length]


class _Config(TypedDict):
    __pydantic_config__ = STRICT  # type: ignore[misc]

    dataset: NotRequired[_Dataset]


class _Metadata(TypedDict):
    """Fields of ``meta.json`` that other code reads; only a training writes all of it."""

    __pydantic_config__ = STRICT  # type: ignore[misc]

    isa_digest: str
    model: NotRequired[Any]
    parameters: NotRequired[Count]
    versions: NotRequired[dict[PlainText, PlainText]]
    commit: NotRequired[PlainText]
    config: NotRequired[_Config]
    data_digest: NotRequired[PlainText]
    steps: NotRequired[Positive]
    programs: NotRequired[Count]
    tokens: NotRequired[Count]
    flops: NotRequired[NonNegative]
    seconds: NotRequired[Above0]
    device: NotRequired[PlainText]
    cores: NotRequired[Positive]


class _TransformersConfig(TypedDict):
    """Fields of ``config.json`` that are read, beside the sizes."""

    __pydantic_config__ = STRICT  # type: ignore[misc]

    isa_digest: NotRequired[str | None]


class _GenerationConfig(TypedDict):
    __pydantic_config__ = STRICT  # type: ignore[misc]

    max_new_tokens: NotRequired[_Length | None]


def save_export(model: GPT, sizes: config.Model, directory: Path | str, metadata: dict[str, Any]) -> None:
    """Export a model; an earlier export in ``directory`` is replaced, with its card.

    Args:
        model: in any precision; saved in fp32.
        sizes: sizes of the model.
        directory: created atomically.
        metadata: more entries for ``meta.json``, such as the data digest and the steps.

    Raises:
        InputError: ``directory`` contains something other than an export, or cannot be written.
    """
    # A link to an export stays.
    directory = Path(os.path.realpath(directory))
    check_export(directory)
    weights = {
        name: tensor.detach().float().cpu().contiguous()
        for name, tensor in _named_weights(model, sizes).items()
    }
    files = {
        METADATA: {
            "isa_digest": isa.digest(),
            "limits": isa.LIMITS,
            "model": sizes.model_dump(),
            "parameters": sum(tensor.numel() for tensor in weights.values()),
            "versions": versions(),
            "commit": commit(),
            **metadata,
        },
        CONFIG: transformers_config(sizes),
        GENERATION_CONFIG: {
            "do_sample": False,
            "eos_token_id": isa.END_ID,
            "pad_token_id": isa.END_ID,
            # Room for every completion, its end included. max_length would count the padding as well.
            "max_new_tokens": _max_length(metadata),
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
    try:
        with replacing_directory(directory) as temporary:
            save_file(weights, temporary / WEIGHTS, metadata={"format": "pt"})
            for name, content in files.items():
                text = json.dumps(content, indent=2, ensure_ascii=False)
                (temporary / name).write_text(text + "\n", encoding="utf-8")
            # safetensors makes its file private.
            (temporary / WEIGHTS).chmod((temporary / METADATA).stat().st_mode)
    except SafetensorError as error:
        raise InputError(f"cannot write {directory}: {error}") from None


def check_export(directory: Path | str) -> None:
    """Check that :func:`save_export` can write to ``directory``.

    Raises:
        InputError: ``directory`` contains something other than an export, or cannot be written.
    """
    directory = Path(directory).absolute()
    check_writable(directory, directory=True)
    # Snakemake deletes an export file by file, but not its card.
    files = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    if files - {CARD} and METADATA not in files:
        raise InputError(f"{directory}: not empty and not a model export; choose another directory")
    if others := sorted(files - {CARD, *FILES}):
        raise InputError(
            f"{directory / others[0]}: not part of a model export, which would be replaced; move it"
        )


def read_metadata(directory: Path | str) -> dict[str, Any]:
    """Read ``meta.json`` of an export, or derive its main entries for a model saved by ``transformers``.

    Returns:
        The entries of ``meta.json``; without it ``isa_digest``, ``model`` and ``max_length``, which is
        ``max_new_tokens`` of ``generation_config.json``.

    Raises:
        InputError: it is missing, unreadable or of another instruction set, or it is missing and
            ``config.json`` is not of a model of Cadmus.
    """
    path = Path(directory) / METADATA
    if not path.exists() and path.with_name(CONFIG).exists():
        return _derived_metadata(path.with_name(CONFIG))
    if not path.exists():
        raise InputError(f"{directory} is not a model export: {path}: no such file{near_path(path)}")
    metadata: dict[str, Any] = {**config.read_json(path, _Metadata, _FIX)}
    _check_isa(path, metadata["isa_digest"])
    return metadata


def _check_isa(path: Path, found: str) -> None:
    if found != isa.digest():
        raise InputError(
            f"{path}: isa_digest: trained on instruction set {found}, this is {isa.digest()}; train again"
        )


def _derived_metadata(path: Path) -> dict[str, Any]:
    """Return the entries of ``meta.json`` that ``config.json`` at ``path`` and its neighbors contain."""
    found: dict[str, Any] = {**config.read_json(path, _TransformersConfig, _FIX)}
    if found.get("isa_digest") is None:
        raise InputError(
            f"{path}: isa_digest: missing, so there is no telling which instruction set the model knows; "
            f"copy {METADATA} of the export that it comes from"
        )
    _check_isa(path, found["isa_digest"])
    try:
        sizes = config.Model.model_validate({name: found.get(key) for name, key in _KEYS_OF_SIZES.items()})
    except ValidationError:
        keys = ", ".join(_KEYS_OF_SIZES.values())
        raise InputError(f"{path}: {keys}: not the sizes of a Cadmus model; save it again") from None
    for key, value in transformers_config(sizes).items():
        if key in _ARCHITECTURE and found.get(key) != value:
            raise InputError(
                f"{path}: {key}: must be {json.dumps(value)}, got {json.dumps(found.get(key))}; "
                "Cadmus runs only models of its own architecture"
            )
    metadata = {"isa_digest": found["isa_digest"], "model": sizes.model_dump()}
    generation = path.with_name(GENERATION_CONFIG)
    if generation.exists():
        longest = config.read_json(generation, _GenerationConfig, _FIX).get("max_new_tokens")
        if longest is not None:
            metadata["max_length"] = longest
    return metadata


def max_length(directory: Path | str) -> int:
    """Return the maximum number of instructions in a program of the dataset of an export.

    Raises:
        InputError: as :func:`read_metadata`.
    """
    return _max_length(read_metadata(directory))


def _max_length(metadata: dict[str, Any]) -> int:
    dataset = metadata.get("config", {}).get("dataset", {})
    found: int = dataset.get("max_length") or metadata.get("max_length") or config.Dataset().max_length
    return found


def trained_config(directory: Path | str) -> config.Config | None:
    """Return the config that a model was trained with, with default experiments; None if it is unknown.

    Raises:
        InputError: as :func:`read_metadata`, or the config is not valid.
    """
    values = read_metadata(directory).get("config")
    if values is None:
        return None
    trained = {section: fields for section, fields in values.items() if section != "evaluate"}
    return config.parse_config(trained, str(Path(directory) / METADATA))


def weights_digest(directory: Path | str) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of an export's weights, which identify it in results.

    Raises:
        InputError: the weights cannot be read.
    """
    path = Path(directory) / WEIGHTS
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError:
        raise InputError(f"{path}: missing or not readable; export the model again") from None


def load_export(directory: Path | str, device: torch.device | str = "cpu") -> GPT:
    """Load the model of an export for inference in fp32.

    Raises:
        InputError: as :func:`read_metadata`, or the weights are missing, damaged or do not match the sizes.
    """
    metadata = read_metadata(directory)
    source = f"{Path(directory) / METADATA}: model"
    sizes = config.validate(metadata.get("model"), config.Model, source, _FIX)
    path = Path(directory) / WEIGHTS
    # Sizes that the weights do not have could take all memory.
    with torch.device("meta"), _NoInitialValues():
        expected = _named_weights(GPT(sizes), sizes)
    _check_weights(path, {name: tuple(tensor.shape) for name, tensor in expected.items()})
    with reading(path, _FIX):
        weights = load_file(path)
    with torch.no_grad():
        for name, tensor in weights.items():
            # Also of NaN.
            if not (tensor.abs() <= LARGEST).all():
                raise InputError(
                    f"{path}: {name}: has weights that are NaN or above {LARGEST:g}; train again"
                )
        with _NoInitialValues():
            model = GPT(sizes)
        for name, tensor in _named_weights(model, sizes).items():
            tensor.copy_(weights[name][: len(tensor)])
    return model.to(device).eval().requires_grad_(False)


class _NoInitialValues(TorchFunctionMode):
    """Weights are made without initial values: those on the meta device import torch._dynamo, for 2 s."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        return (
            kwargs["tensor"] if getattr(func, "__module__", "") == "torch.nn.init" else func(*args, **kwargs)
        )


def _check_weights(path: Path, expected: dict[str, tuple[int, ...]]) -> None:
    """Check the names, types and shapes of exported weights by their header.

    Raises:
        InputError: the file is missing or damaged, or other tensors are in it.
    """
    with reading(path, _FIX), safe_open(path, "pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        found = {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}
    for name in sorted(expected.keys() ^ found.keys()):
        problem = "missing" if name in expected else "unexpected"
        raise InputError(f"{path}: {name}: {problem} tensor; {_FIX}")
    for name, (kind, shape) in found.items():
        if kind not in FLOATS:
            raise InputError(f"{path}: {name}: has type {kind}, not one of {', '.join(FLOATS)}; {_FIX}")
        # A fine-tuned model may have a row for a padding token after those of the instructions.
        padded = name in _VOCABULARY_WEIGHTS and shape[1:] == expected[name][1:] and shape > expected[name]
        if shape != expected[name] and not padded:
            raise InputError(f"{path}: {name}: has shape {shape}, but {METADATA} needs {expected[name]}")


def _named_weights(model: GPT, sizes: config.Model) -> dict[str, torch.Tensor]:
    """Return the weights of a model by their names in the file; of a tied matrix, one."""
    return {
        _transformers_name(name): tensor
        for name, tensor in model.state_dict().items()
        if not (sizes.tied and name == "lm_head.weight")
    }


def _transformers_name(name: str) -> str:
    return name if name.startswith("lm_head.") else f"gpt_neox.{name}"


def transformers_config(sizes: config.Model) -> dict[str, Any]:
    """Return ``config.json`` of a GPT-NeoX model."""
    return {
        "architectures": ["GPTNeoXForCausalLM"],
        "model_type": "gpt_neox",
        "vocab_size": isa.VOCABULARY_SIZE,
        "hidden_size": sizes.width,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "intermediate_size": sizes.mlp,
        "hidden_act": sizes.activation,
        "attention_bias": True,
        "use_parallel_residual": False,
        "layer_norm_eps": LAYER_NORM_EPSILON,
        "initializer_range": INITIAL_DEVIATION,
        "max_position_embeddings": MAX_POSITIONS,
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
        # transformers before version 5 reads the two keys after this one instead.
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": ROTARY_BASE,
            "partial_rotary_factor": 1.0,
        },
        "rotary_emb_base": ROTARY_BASE,
        "rotary_pct": 1.0,
        "tie_word_embeddings": sizes.tied,
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
_ARCHITECTURE = {"model_type", "use_parallel_residual", "attention_bias", "layer_norm_eps"}
"""Keys of ``config.json`` that are the same for all models."""


def _tokenizer() -> dict[str, Any]:
    """Return ``tokenizer.json`` of a word-level tokenizer whose words are single characters."""
    end = {"id": isa.END_ID, "content": isa.END, "single_word": False, "lstrip": False, "rstrip": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{**end, "normalized": False, "special": True}],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": r"[\s\S]"},
            "behavior": "Isolated",
            "invert": False,
        },
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        # Not in the vocabulary, so that a character that is not an instruction is an error.
        "model": {"type": "WordLevel", "vocab": isa.TOKEN_ID, "unk_token": "<unknown>"},
    }
