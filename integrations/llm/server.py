"""A server with OpenAI's chat endpoint that counts what it is asked."""

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.evaluate.solver import solve


class LlmServer:
    """Serves the model ``test`` at ``url``; ``asked`` counts the requests by their text."""

    def __init__(
        self, answer: Callable[[str], str] = solve, delay: float = 0, finish: str = "stop", status: int = 200
    ) -> None:
        self.asked: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        server, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send({"data": [{"id": "test"}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                text = body["messages"][0]["content"]
                with lock:
                    server.asked[text] += 1
                    server.bodies.append(body)
                time.sleep(delay)
                if status != 200:
                    self._send({"error": {"message": "no such luck"}}, status)
                    return
                symbol = answer(text)
                likeliest = [("The", 0.3), (symbol, 0.2), (f" {symbol}", 0.1)]
                tokens = [{"token": token, "logprob": math.log(p), "bytes": None} for token, p in likeliest]
                choice = {
                    "index": 0,
                    "message": {"role": "assistant", "content": symbol},
                    "finish_reason": finish,
                    "logprobs": {"content": [{**tokens[0], "top_logprobs": tokens}]},
                }
                usage = {"prompt_tokens": 600, "completion_tokens": 7, "total_tokens": 607}
                plain = {"id": "1", "object": "chat.completion", "created": 0, "model": "test"}
                self._send({**plain, "choices": [choice], "usage": usage})

            def _send(self, value: Any, status: int = 200) -> None:
                raw = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> "LlmServer":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
