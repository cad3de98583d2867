"""A trained model as a directory: safetensors weights, and beside them what ``transformers`` needs.

``config.json`` and the tokenizer files are for ``transformers``; our own loading goes by ``meta.json``.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from cadmus import config, isa
from cadmus.common.files import as_input_error, check_writable
from cadmus.common.provenance import commit, versions
from cadmus.errors import InputError
from cadmus.model import CONFIG, METADATA, TOKENIZER, TOKENIZER_CONFIG, WEIGHTS
from cadmus.model.gpt import GPT, INITIAL_DEVIATION, LAYER_NORM_EPSILON, ROTARY_BASE

MAX_POSITIONS = 256
"""Stated to ``transformers``; rotary positions have no limit of their own."""


def save_export(model: GPT, sizes: config.Model, directory: Path | str, metadata: dict[str, Any]) -> None:
    """Write a model and everything needed to use it; an earlier export of that name is replaced.

    Args:
        model: the model, in any precision; fp32 is written.
        sizes: its sizes.
        directory: made by this call, whole or not at all.
        metadata: what else ``meta.json`` is to say, such as the data digest and the steps trained.

    Raises:
        InputError: ``directory`` holds something that is no export, or cannot be written.
    """
    directory = Path(directory).absolute()
    check_export(directory)
    weights = {
        _transformers_name(name): tensor.detach().float().cpu().contiguous()
        for name, tensor in model.state_dict().items()
        if not (sizes.tied and name == "lm_head.weight")
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
        TOKENIZER: _tokenizer(),
        TOKENIZER_CONFIG: {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": isa.END,
            "pad_token": isa.END,
            "model_max_length": MAX_POSITIONS,
            "clean_up_tokenization_spaces": False,
        },
    }
    temporary = directory.with_name(f".{directory.name}.writing-{os.getpid()}")
    replaced = directory.with_name(f".{directory.name}.replaced-{os.getpid()}")
    try:
        with as_input_error(directory):
            temporary.mkdir(parents=True)
            save_file(weights, temporary / WEIGHTS, metadata={"format": "pt"})
            for name, content in files.items():
                text = json.dumps(content, indent=2, ensure_ascii=False)
                (temporary / name).write_text(text + "\n", encoding="utf-8")
            # safetensors makes its file private; it should be as readable as the others.
            (temporary / WEIGHTS).chmod((temporary / METADATA).stat().st_mode)
            if directory.exists():
                directory.rename(replaced)
            temporary.rename(directory)
    except SafetensorError as error:
        raise InputError(f"cannot write {directory}: {error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)


def check_export(directory: Path | str) -> None:
    """Find out before a model is trained whether :func:`save_export` will write it there.

    Raises:
        InputError: ``directory`` holds something that is no export, or cannot be written.
    """
    directory = Path(directory).absolute()
    check_writable(directory, directory=True)
    if directory.is_dir() and not (directory / METADATA).exists() and os.listdir(directory):
        raise InputError(f"{directory} is in the way: it is not empty and no export of a model; name another")


def read_metadata(directory: Path | str) -> dict[str, Any]:
    """What ``meta.json`` of an export says.

    Raises:
        InputError: it is missing, unreadable or belongs to another instruction set.
    """
    path = Path(directory) / METADATA
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{directory} is no export of a model: {path}: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{path}: not valid JSON; export the model again") from None
    if not isinstance(metadata, dict):
        metadata = {}
    found = metadata.get("isa_digest")
    if found != isa.digest():
        raise InputError(
            f"{path}: the model speaks the instruction set {found}, this is {isa.digest()}; train it again"
        )
    return metadata


def trained_config(directory: Path | str) -> config.Config | None:
    """The config that a model was trained with, its experiments the defaults; None if ``meta.json`` has none.

    Raises:
        InputError: as :func:`read_metadata`, or the config is not valid.
    """
    noted = read_metadata(directory).get("config")
    if noted is None:
        return None
    # The settings of experiments are not the model's.
    trained = {section: values for section, values in noted.items() if section != "evaluate"}
    return config.parse_config(trained, str(Path(directory) / METADATA))


def weights_digest(directory: Path | str) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of an export's weights, by which results name their model.

    Raises:
        InputError: there are none.
    """
    path = Path(directory) / WEIGHTS
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError:
        raise InputError(f"{path}: is missing or cannot be read; export the model again") from None


def load_export(directory: Path | str, device: torch.device | str = "cpu") -> GPT:
    """The model of an export, in fp32, ready for inference.

    Raises:
        InputError: a file is missing or damaged, the instruction set is another, or the weights do not
            fit the sizes in ``meta.json``.
    """
    metadata = read_metadata(directory)
    path = Path(directory) / WEIGHTS
    try:
        sizes = config.Model.model_validate(metadata.get("model"))
        model = GPT(sizes)
        weights = load_file(path)
    except ValidationError:
        raise InputError(f"{Path(directory) / METADATA}: model: these are no sizes of a model") from None
    except OSError:
        raise InputError(f"{path}: is missing or cannot be read; export the model again") from None
    except SafetensorError as error:
        raise InputError(f"{path}: damaged ({error}); export the model again") from None
    if sizes.tied and "gpt_neox.embed_in.weight" in weights:
        weights["lm_head.weight"] = weights["gpt_neox.embed_in.weight"]
    expected = {_transformers_name(name): name for name in model.state_dict()}
    for name in sorted(expected.keys() ^ weights.keys()):
        problem = "is missing" if name in expected else "does not belong there"
        raise InputError(f"{path}: the tensor {name} {problem}")
    for name, own_name in expected.items():
        found, needed = tuple(weights[name].shape), tuple(model.state_dict()[own_name].shape)
        if found != needed:
            raise InputError(f"{path}: the tensor {name} has the shape {found}; meta.json asks for {needed}")
    model.load_state_dict({own_name: weights[name] for name, own_name in expected.items()})
    return model.to(device).eval().requires_grad_(False)


def _transformers_name(name: str) -> str:
    return name if name.startswith("lm_head.") else f"gpt_neox.{name}"


def transformers_config(sizes: config.Model) -> dict[str, Any]:
    return {
        "architectures": ["GPTNeoXForCausalLM"],
        "model_type": "gpt_neox",
        "vocab_size": isa.VOCABULARY_SIZE,
        "hidden_size": sizes.width,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "intermediate_size": sizes.mlp,
        "hidden_act": "gelu",
        "attention_bias": True,
        "use_parallel_residual": False,
        "layer_norm_eps": LAYER_NORM_EPSILON,
        "initializer_range": INITIAL_DEVIATION,
        "max_position_embeddings": MAX_POSITIONS,
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
        # Before version 5, transformers reads the two keys after this one.
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
    }


def _tokenizer() -> dict[str, Any]:
    """A word-level tokenizer whose words are single characters."""
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
        # The unknown token is not in the vocabulary: a character that is no instruction is an error.
        "model": {"type": "WordLevel", "vocab": isa.TOKEN_ID, "unk_token": "<unknown>"},
    }
