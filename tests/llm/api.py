"""OpenAI's API without its transport, with reproducible faults; see server.py."""

import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

ANSWERING = ("/v1/chat/completions", "/v1/responses", "/v1/completions")
# The fates of a body at these do not change when it is sent again.
STABLE = {"truncated", "refused", "filtered", "rejected"}
ENDED = {"completed", "failed", "expired", "cancelled"}


@dataclass(frozen=True)
class Faults:
    """The faults; floats are probabilities unless described otherwise.

    A fault depends on the seed, its name, the body and the number of earlier requests with that body.
    """

    seed: int = 0
    # Names of faults that a body which met them once meets every time, as those of STABLE.
    always: Collection[str] = ()
    # A regular expression for the requests ("POST /v1/batches") that the faults of the transport strike.
    only: str = ""

    # The transport, of any request. Work that was dropped or malformed on its way back has been done.
    latency: float = 0  # seconds on average, drawn evenly from 0 to twice as many
    rate_limited: float = 0
    retry_after: str | None = "0"  # the header of rate_limited, in any spelling
    insufficient_quota: float = 0
    server_error: float = 0
    unavailable: float = 0  # 503 with a page of HTML, as proxies answer
    dropped: float = 0
    dropped_halfway: float = 0
    malformed: float = 0  # status 200, the second half of the body missing

    # The answers, both direct and in batches.
    rejected: float = 0
    truncated: float = 0  # empty for one half of these, half of the text for the other
    refused: float = 0
    filtered: float = 0

    # The lines of a batch's files.
    shuffled: bool = False
    missing_id: float = 0  # custom_id null for one half of these, absent for the other
    dropped_lines: float = 0
    duplicated: float = 0
    malformed_lines: float = 0
    foreign_lines: float = 0  # an additional line, with a custom_id of nobody
    error_lines: float = 0  # in the error file: status 500 for one half of these, an error code for the other

    # Whole batches.
    only_errors: float = 0
    expired: float = 0
    answered_before_end: float = 0.5  # of the lines of a batch that expires or is cancelled
    failed: float = 0
    empty_ids: bool = False  # a file that does not exist has the id "" instead of null
    polls: int = 0  # how often a batch is retrieved before it has ended
    line_limit: int | None = None  # of a batch
    queue_limit: int | None = None  # of all batches together that have not ended
    byte_limit: int | None = None  # of an uploaded file

    def __post_init__(self):
        unknown = set(self.always) - set(vars(self))
        if unknown:
            raise ValueError(f"no such faults: {sorted(unknown)}")

    def draw(self, name: str, identity: str, before: int) -> float:
        """A number from 0 to 1, without 1, that depends on the seed and the arguments alone."""
        if name in STABLE or name in self.always:
            before = 0
        digest = hashlib.sha256(f"{self.seed} {name} {identity} {before}".encode()).digest()
        return int.from_bytes(digest[:6]) / 2**48


@dataclass
class Stats:
    """Counts of the server by ``request_key``; lines of batches count like single requests."""

    seen: Counter[str] = field(default_factory=Counter)
    # Answered with status 200, well-formed and in full; lines of batches: readable under their own id.
    billed: Counter[str] = field(default_factory=Counter)
    # Seconds of the monotonic clock, method and path, key.
    arrivals: list[Sequence] = field(default_factory=list)
    idempotency_keys: dict[str, list[str]] = field(default_factory=dict)
    # How often each fault struck.
    faults: Counter[str] = field(default_factory=Counter)
    # Without latency the server answers one request after the other.
    max_concurrent: int = 0
    batches: list[str] = field(default_factory=list)
    # Requests before a Retry-After that was told had passed: to the same body, and to any.
    early_retries: int = 0
    early_requests: int = 0
    # Tracebacks of the server itself or of the function that answers.
    failures: list[str] = field(default_factory=list)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Stats":
        """The inverse of ``to_json``."""
        fields = json.loads(text)
        return cls(**{**fields, **{name: Counter(fields[name]) for name in ("seen", "billed", "faults")}})

    def to_json(self) -> str:
        """All fields."""
        return json.dumps(vars(self))


def request_key(path: str, body: object) -> str:
    """Under which requests of the path ("/v1/responses") with the body are counted."""
    text = body if isinstance(body, bytes) else json.dumps(body, sort_keys=True).encode()
    return f"{path} {hashlib.sha256(text).hexdigest()}"


class ApiError(Exception):
    """An answer other than 200; ``headers`` go with it."""

    def __init__(self, status: int, message: str, code: str | None, headers: dict[str, str] | None = None):
        super().__init__(message)
        kind = code if code == "insufficient_quota" else "server_error" if status >= 500 else None
        self.status, self.headers = status, headers or {}
        self.body = {"message": message, "type": kind or "invalid_request_error", "param": None, "code": code}


def tokens(body: dict, text: str) -> tuple[int, int, int]:
    """Made-up counts: of the prompt, of the reasoning, and of the reasoning and the text together."""
    return len(json.dumps(body)) // 4, 7, 7 + len(text) // 4


def completion(path: str, name: str, body: dict, text: str, ending: str) -> dict:
    """The reply of chat/completions, or of completions, to an answer that ended as told."""
    asked, reasoning, told = tokens(body, text)
    usage: dict = {"prompt_tokens": asked, "completion_tokens": told, "total_tokens": asked + told}
    usage["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    choice: dict = {"index": 0, "logprobs": None}
    chat = path == "/v1/chat/completions"
    if chat:
        refused = ending == "refused"
        message = {"role": "assistant", "content": None if refused else text}
        choice["message"] = {**message, "refusal": text if refused else None}
        choice["finish_reason"] = "stop" if refused else ending
    else:
        # Plain completions have no field for a refusal.
        choice.update(text=text, finish_reason="stop" if ending == "refused" else ending)
    facts = {"id": name, "object": "chat.completion" if chat else "text_completion"}
    return {**facts, "created": int(time.time()), "model": body["model"], "choices": [choice], "usage": usage}


def response(name: str, body: dict, text: str, ending: str) -> dict:
    """The reply of responses to an answer that ended as told."""
    asked, reasoning, told = tokens(body, text)
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(ending)
    status = "incomplete" if reason else "completed"
    output: list[dict] = [{"id": f"rs_{name}", "type": "reasoning", "summary": []}]
    if text:
        content = {"type": "output_text", "text": text, "annotations": []}
        if ending == "refused":
            content = {"type": "refusal", "refusal": text}
        message = {"id": f"msg_{name}", "type": "message", "role": "assistant", "status": status}
        output.append({**message, "content": [content]})
    return {
        **{"id": f"resp_{name}", "object": "response", "created_at": time.time(), "model": body["model"]},
        **{"status": status, "error": None, "incomplete_details": {"reason": reason} if reason else None},
        **{"instructions": body.get("instructions"), "metadata": {}, "output": output, "tools": []},
        **{"parallel_tool_calls": True, "tool_choice": "auto", "temperature": 1.0, "top_p": 1.0},
        "usage": {
            **{"input_tokens": asked, "output_tokens": told, "total_tokens": asked + told},
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": reasoning},
        },
    }


@dataclass
class Line:
    """One request of a batch."""

    custom_id: str
    body: dict
    key: str
    before: int


@dataclass
class Batch:
    """A batch, what is wrong with its input, and how often it was retrieved."""

    record: dict
    key: str
    before: int
    lines: list[Line]
    problems: list[dict]
    retrieved: int = 0


class Api:
    """The endpoints; ``answer`` gets a request's body and returns the text."""

    def __init__(self, answer: Callable[[dict], str], faults: Faults, models: Sequence[str]):
        self.faults, self.stats = faults, Stats()
        self._answer, self._models = answer, models
        self._files: dict[str, tuple[dict, bytes]] = {}
        self._batches: dict[str, Batch] = {}

    def strikes(self, name: str, key: str, before: int) -> bool:
        """Return True, and count it, if a fault strikes."""
        struck = self.faults.draw(name, key, before) < getattr(self.faults, name)
        if struck:
            self.stats.faults[name] += 1
        return struck

    def route(self, method: str, target: str, body: object, key: str, before: int) -> dict | bytes:
        """The body of the reply to a request that came so often before."""
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        match method, path.removeprefix("/v1/").split("/"):
            case "POST", _ if path in ANSWERING:
                return self._complete(path, body, key, before)
            case "GET", ["models"]:
                facts = {"object": "model", "created": 0, "owned_by": "tests"}
                return {"object": "list", "data": [{"id": name, **facts} for name in self._models]}
            case "POST", ["files"]:
                if not isinstance(body, bytes):
                    raise ApiError(400, "'file' is a required property", None)
                if self.faults.byte_limit is not None and len(body) > self.faults.byte_limit:
                    raise ApiError(400, "File is too large.", "file_too_large")
                return self._keep(body, "batch")
            case "GET", ["files", name, *rest] if name in self._files and rest in ([], ["content"]):
                return self._files[name][len(rest)]
            case "POST", ["batches"]:
                return self._create(body)
            case "GET", ["batches"]:
                return self._list(query)
            case "GET", ["batches", name] if name in self._batches:
                return self._retrieve(self._batches[name])
            case "POST", ["batches", name, "cancel"] if name in self._batches:
                record = self._batches[name].record
                if record["status"] in ENDED:
                    raise ApiError(409, f"Cannot cancel a batch with status '{record['status']}'.", None)
                record.update(status="cancelling", cancelling_at=int(time.time()))
                return dict(record)
        raise ApiError(404, f"Invalid URL ({method} {target})", None)

    def _complete(self, path: str, body: object, key: str, before: int) -> dict:
        """The reply to a request for an answer."""
        if not isinstance(body, dict) or "model" not in body:
            raise ApiError(400, "you must provide a model parameter", None)
        if body["model"] not in self._models:
            raise ApiError(404, f"The model `{body['model']}` does not exist.", "model_not_found")
        if self.strikes("rejected", key, before):
            raise ApiError(400, "Invalid prompt.", "invalid_prompt")
        text, ending = self._answer(body), "stop"
        if self.strikes("truncated", key, before):
            empty = self.faults.draw("truncated", key + " empty", before) < 0.5
            text, ending = "" if empty else text[: len(text) // 2], "length"
        elif self.strikes("refused", key, before):
            text, ending = "I'm sorry, but I can't help with that.", "refused"
        elif self.strikes("filtered", key, before):
            text, ending = "", "content_filter"
        name = f"{key[-24:]}-{before}"
        if path == "/v1/responses":
            return response(name, body, text, ending)
        return completion(path, name, body, text, ending)

    def _keep(self, content: bytes, purpose: str) -> dict:
        """The record of a new file."""
        record: dict = {"id": f"file-{len(self._files)}", "object": "file", "created_at": int(time.time())}
        record.update(bytes=len(content), filename=f"{purpose}.jsonl", purpose=purpose, status="processed")
        self._files[record["id"]] = record, content
        return record

    def _create(self, body: object) -> dict:
        """A new batch; what is wrong with its lines shows when it has ended."""
        if not isinstance(body, dict) or body.get("input_file_id") not in self._files:
            raise ApiError(400, "No such File object.", None)
        if body.get("endpoint") not in ANSWERING or body.get("completion_window") != "24h":
            raise ApiError(400, "Invalid endpoint or completion_window.", "invalid_value")
        name, now = f"batch_{len(self._batches)}", int(time.time())
        content = self._files[body["input_file_id"]][1]
        no_file = "" if self.faults.empty_ids else None
        record: dict = {
            **{key: body.get(key) for key in ("input_file_id", "endpoint", "completion_window", "metadata")},
            **{"id": name, "object": "batch", "status": "validating", "errors": None, "created_at": now},
            **{"expires_at": now + 86400, "output_file_id": no_file, "error_file_id": no_file},
        }
        key = request_key("batch", content)
        before = sum(other.key == key for other in self._batches.values())
        lines, problems = self._validated(content, body["endpoint"])
        if self.strikes("failed", key, before):
            problems.append({"code": "invalid_request", "message": "Validation failed.", "line": None})
        for line in lines if not problems else []:
            line.before = self.stats.seen[line.key]
            self.stats.seen[line.key] += 1
        record["request_counts"] = {"total": 0 if problems else len(lines), "completed": 0, "failed": 0}
        self._batches[name] = Batch(record, key, before, lines, problems)
        self.stats.batches.append(name)
        return dict(record)

    def _validated(self, content: bytes, endpoint: str) -> tuple[list[Line], list[dict]]:
        """The lines of a batch's input, and the errors found in it."""
        lines: dict[str, Line] = {}
        problems, model = [], None
        for number, text in enumerate(content.splitlines(), 1):
            try:
                entry = json.loads(text)
                custom_id, method, url, body = (entry[k] for k in ("custom_id", "method", "url", "body"))
                wrong = {
                    "invalid_url": (method, url) != ("POST", endpoint),
                    "invalid_custom_id": not isinstance(custom_id, str),
                    "duplicate_custom_id": custom_id in lines,
                    "model_not_found": body["model"] not in self._models,
                    "mismatched_model": model not in (None, body["model"]),
                }
                model = body["model"]
                code = next((name for name, holds in wrong.items() if holds), None)
                lines[custom_id] = Line(custom_id, body, request_key(url, body), 0)
            except (ValueError, KeyError, TypeError):
                code = "invalid_json_line"
            if code:
                problems.append({"code": code, "message": f"Line {number}: {code}.", "line": number})
        queued = sum(len(b.lines) for b in self._batches.values() if b.record["status"] not in ENDED)
        limits = self.faults.line_limit, self.faults.queue_limit
        codes = "too_many_tasks", "token_limit_exceeded"
        for limit, code, count in zip(limits, codes, (len(lines), queued + len(lines)), strict=True):
            if limit is not None and count > limit:
                problems.append({"code": code, "message": f"More than {limit} requests.", "line": None})
        if not lines and not problems:
            problems.append({"code": "empty_file", "message": "The file is empty.", "line": None})
        return list(lines.values()), problems

    def _list(self, query: dict[str, list[str]]) -> dict:
        """A page of the batches, newest first."""
        names = list(reversed(self._batches))
        start = names.index(query["after"][0]) + 1 if query.get("after", [""])[0] in names else 0
        stop = start + int(query.get("limit", ["20"])[0])
        data = [self._batches[name].record for name in names[start:stop]]
        ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
        return {"object": "list", "data": data, "has_more": stop < len(names), **ends}

    def _retrieve(self, batch: Batch) -> dict:
        """Return the batch; each retrieval advances its state."""
        record, polls = batch.record, self.faults.polls
        if record["status"] not in ENDED:
            batch.retrieved += 1
            if batch.retrieved > polls or record["status"] == "cancelling":
                self._end(batch)
            else:
                record["status"] = "finalizing" if batch.retrieved == polls > 1 else "in_progress"
        return dict(record)

    def _end(self, batch: Batch) -> None:
        record = batch.record
        status = "completed"
        if record["status"] == "cancelling":
            status = "cancelled"
        elif batch.problems:
            status = "failed"
            record["errors"] = {"object": "list", "data": batch.problems}
        elif self.strikes("expired", batch.key, batch.before):
            status = "expired"
        record.update({"status": status, f"{status}_at": int(time.time())})
        if batch.problems:
            return
        share = 1 if status == "completed" else self.faults.answered_before_end
        answered = round(share * len(batch.lines))
        only_errors = self.strikes("only_errors", batch.key, batch.before)
        written: dict[str, list[str]] = {"output": [], "error": []}
        for place, line in enumerate(batch.lines):
            code = f"batch_{status}" if place >= answered else "server_error" if only_errors else None
            entry, succeeded = self._processed(record["endpoint"], line, code)
            record["request_counts"]["completed" if succeeded else "failed"] += 1
            texts = list(self._spoilt(line, entry))
            written["output" if succeeded else "error"] += texts
            if succeeded and json.dumps(entry) in texts:
                self.stats.billed[line.key] += 1
        for kind, texts in written.items():
            if self.faults.shuffled:
                random.Random(f"{self.faults.seed} {batch.key} {batch.before}").shuffle(texts)
            if texts:
                content = "".join(text + "\n" for text in texts).encode()
                record[f"{kind}_file_id"] = self._keep(content, "batch_output")["id"]

    def _processed(self, endpoint: str, line: Line, code: str | None) -> tuple[dict, bool]:
        """Return the result of an input line and True if it succeeded; a code makes it an error."""
        entry: dict = {"id": f"batch_req_{line.key[-24:]}-{line.before}", "custom_id": line.custom_id}
        status, reply = 200, None
        if code is None and self.strikes("error_lines", line.key, line.before):
            if self.faults.draw("error_lines", line.key + " kind", line.before) < 0.5:
                status, reply = 500, {"error": ApiError(500, "The server had an error.", None).body}
            else:
                code = "server_error"
        if code:
            return {**entry, "response": None, "error": {"code": code, "message": "Not executed."}}, False
        if reply is None:
            try:
                reply = self._complete(endpoint, line.body, line.key, line.before)
            except ApiError as error:
                status, reply = error.status, {"error": error.body}
        told = {"status_code": status, "request_id": entry["id"], "body": reply}
        return {**entry, "response": told, "error": None}, status == 200

    def _spoilt(self, line: Line, entry: dict) -> Iterator[str]:
        """Yield the lines of a file for an entry."""
        text = json.dumps(entry)

        def struck(name: str) -> bool:
            return self.strikes(name, line.key + line.custom_id, line.before)

        if struck("foreign_lines"):
            yield json.dumps({**entry, "custom_id": f"nobody-{line.custom_id}"})
        if struck("dropped_lines"):
            return
        if struck("malformed_lines"):
            yield text[: len(text) // 2]
        elif struck("missing_id"):
            null = self.faults.draw("missing_id", line.key + " null", line.before) < 0.5
            rest = {name: value for name, value in entry.items() if name != "custom_id"}
            yield json.dumps({"custom_id": None, **rest} if null else rest)
        else:
            yield text
            if struck("duplicated"):
                yield text
