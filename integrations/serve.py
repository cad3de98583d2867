"""Serve a model of Cadmus with OpenAI's API, for harnesses that ask nothing else.

``python integrations/serve.py [MODEL] [PORT]`` answers completions and chats on this machine; a chat's prompt
is its last message. Temperature, ``top_p``, ``n``, ``seed``, ``stop`` and the number of tokens count; log
probabilities are refused; :meth:`cadmus.Cadmus.log_probabilities` has them.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from cadmus import Cadmus, isa
from cadmus.errors import InputError
from cadmus.model import find_model
from cadmus.programs import Programs

REFUSED = ("logprobs", "top_logprobs", "echo", "suffix", "logit_bias", "best_of", "tools")
"""Fields that would change the answer, if they are neither null nor empty."""


def choices(model: Cadmus, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the choices for the prompts of a request, ``n`` for each."""
    for name in REFUSED:
        if asked.get(name):
            raise InputError(f"{name}: is not supported; leave it out")
    chat = "messages" in asked
    prompts = asked["messages"][-1]["content"] if chat else asked["prompt"]
    prompts = [prompts] if isinstance(prompts, str) else prompts
    programs = Programs.from_strings(map(isa.check_prefix, prompts))
    # The defaults of OpenAI; a chat has no limit. The end is a token.
    most = asked.get("max_completion_tokens") or asked.get("max_tokens") or (model.max_length if chat else 16)
    limits = np.minimum(programs.lengths + most, model.max_length)
    sampling = {
        "samples": asked.get("n") or 1,
        "temperature": 1.0 if asked.get("temperature") is None else asked["temperature"],
        "top_p": asked.get("top_p") or 1.0,
        "seed": asked.get("seed") or 0,
    }
    completions, ended = model.complete(programs, limits, **sampling)
    stops = asked.get("stop") or []
    stops = [stops] if isinstance(stops, str) else stops
    found = []
    for index, (text, end) in enumerate(zip(completions.to_strings(), ended.tolist(), strict=True)):
        cuts = [text.index(stop) for stop in stops if stop in text]
        text = text[: min(cuts)] if cuts else text
        reason = "stop" if end or cuts else "length"
        answer = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        found.append({"index": index, **answer, "logprobs": None, "finish_reason": reason})
    return found


class Handler(BaseHTTPRequestHandler):
    """Answers requests one after another: each uses the whole machine."""

    model: Cadmus
    name: str
    turn = Lock()

    def do_GET(self) -> None:
        self.reply({"object": "list", "data": [{"id": self.name, "object": "model"}]})

    def do_POST(self) -> None:
        try:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with self.turn:
                found = choices(self.model, asked)
        except (InputError, ValueError, KeyError, TypeError) as error:
            self.reply({"error": {"message": str(error), "type": "invalid_request_error"}}, 400)
            return
        kind = "chat.completion" if "messages" in asked else "text_completion"
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        body = {"id": "cadmus", "object": kind, "created": 0, "model": self.name, "choices": found}
        if asked.get("stream"):
            # All in one event.
            chunks = [{"delta": choice.pop("message", {}), **choice} for choice in found]
            body |= {"object": f"{kind}.chunk", "choices": chunks, "usage": usage}
            self.send(f"data: {json.dumps(body)}\n\ndata: [DONE]\n\n", "text/event-stream")
        else:
            self.reply({**body, "usage": usage})

    def reply(self, value: dict[str, Any], status: int = 200) -> None:
        self.send(json.dumps(value), "application/json", status)

    def send(self, text: str, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    """Serve until Ctrl-C."""
    directory = find_model(sys.argv[1] if len(sys.argv) > 1 else None)
    Handler.model, Handler.name = Cadmus.load(directory), Path(directory).resolve().name
    with ThreadingHTTPServer(
        ("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 8000), Handler
    ) as server:
        print(f"{Handler.name} is served at http://127.0.0.1:{server.server_port}/v1", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
