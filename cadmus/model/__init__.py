"""The decoder: ``gpt`` defines it, ``export`` writes and reads it, ``inference`` asks it."""

WEIGHTS = "model.safetensors"
METADATA = "meta.json"
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
FILES = (WEIGHTS, METADATA, CONFIG, TOKENIZER, TOKENIZER_CONFIG)
"""What an export consists of; its card may lie beside them."""
