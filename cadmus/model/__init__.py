"""The decoder: ``gpt`` defines it, ``export`` saves and loads it, ``inference`` runs it."""

WEIGHTS = "model.safetensors"
METADATA = "meta.json"
CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
FILES = (WEIGHTS, METADATA, CONFIG, GENERATION_CONFIG, TOKENIZER, TOKENIZER_CONFIG)
"""The files of an export."""
CARD = "README.md"
"""The model card, which ``cadmus card`` adds to an export."""
