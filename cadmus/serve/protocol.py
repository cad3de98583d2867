"""Requests and errors of OpenAI's completions API: fields, checks and messages."""

import json
import reprlib
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from cadmus import isa
from cadmus.errors import CadmusError, InputError

MAX_BYTES = 2 << 20
"""Maximum size of a request body."""
MAX_CHOICES = 1024
"""Maximum number of completions per request, over all its prompts."""
MAX_STOPS = 4
UNSUPPORTED: dict[str, Any] = {
    "suffix": "",
    "stream": False,
    "logit_bias": {},
    "presence_penalty": 0,
    "frequency_penalty": 0,
}
"""Fields of the API that are not supported, with the value (besides null) that has no effect."""
_MESSAGES = {
    "prompt": "must be a string, a list of token ids, or a list of either",
    "stop": f"must be a string or a list of at most {MAX_STOPS} strings, none of them empty",
}


class ApiError(CadmusError):
    """An error response.

    Args:
        message: one line with the problem and the fix.
        status: the HTTP status.
        param: the field at fault.
        code: OpenAI's code for this kind of error.
    """

    def __init__(
        self, message: str, status: int = 400, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


class Request(BaseModel):
    """The fields of a completion request; :func:`read_request` treats null as left out."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    model: str
    prompt: str | list[Any]
    max_tokens: int = Field(16, ge=0)
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    n: int = Field(1, ge=1, le=128)
    best_of: int | None = None
    logprobs: int | None = Field(None, ge=0, le=isa.VOCABULARY_SIZE)
    echo: bool = False
    stop: Annotated[
        list[Annotated[str, Field(min_length=1)]],
        Field(max_length=MAX_STOPS),
        BeforeValidator(lambda stop: [stop] if isinstance(stop, str) else stop),
    ] = []
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    user: str = ""

    @field_validator("best_of")
    @classmethod
    def _equals_n(cls, best_of: int, info: ValidationInfo) -> int:
        if best_of != info.data.get("n", best_of):
            raise PydanticCustomError("unsupported", "must equal n")
        return best_of


def error_body(
    message: str, param: str | None = None, code: str | None = None, kind: str = "invalid_request_error"
) -> dict[str, dict[str, str | None]]:
    """Return the body of an error response."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def read_request(body: bytes) -> Request:
    """Parse and check the body of a request.

    Raises:
        ApiError: it is not JSON, or a field is missing, unknown, unsupported or wrong.
    """
    return check_fields(read_fields(body))


def read_fields(body: bytes) -> dict[str, Any]:
    """Parse the body of a request.

    Raises:
        ApiError: it is not a JSON object.
    """
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ApiError(f"the body is not valid JSON ({reason})") from None
    if not isinstance(values, dict):
        raise ApiError("the body is not a JSON object; send one with model and prompt")
    return values


def check_fields(values: dict[str, Any]) -> Request:
    """Check the fields of a request.

    Raises:
        ApiError: a field is missing, unknown, unsupported or wrong.
    """
    for key, without_effect in UNSUPPORTED.items():
        if values.pop(key, None) not in (None, without_effect):
            raise ApiError(f"{key}: not supported; leave it out", param=key)
    known = Request.model_fields
    try:
        return Request.model_validate({k: v for k, v in values.items() if v is not None or k not in known})
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
    # A name that is not valid Unicode has no place in the error.
    key = str(problem["loc"][0]) if problem["loc"] else "body"
    given = reprlib.repr(problem["input"])
    if problem["type"] == "extra_forbidden":
        message = f"{reprlib.repr(key)}: unknown field; known are {', '.join(known)}"
    elif problem["type"] == "missing":
        message = f"{key}: missing"
    else:
        expected = _MESSAGES.get(key, problem["msg"].replace("Input should be", "must be"))
        message = f"{key}: {expected}, got {given}"
    raise ApiError(message, param=key)


def check_model(requested: str, name: str) -> None:
    """Check that a request names the model that is served.

    Raises:
        ApiError: it names another one.
    """
    if requested != name:
        message = f"model: {reprlib.repr(requested)} is not served; use {name!r}"
        raise ApiError(message, 404, "model", "model_not_found")


def read_prompts(request: Request, max_length: int) -> list[str]:
    """Return the prompts of a request as programs, which may have their end.

    Args:
        request: the request.
        max_length: maximum number of instructions in a program.

    Raises:
        ApiError: there are too many prompts, or one is not the beginning of a program or too long.
    """
    given = request.prompt
    if isinstance(given, str) or _are_ids(given):
        return [_read_prompt(given, "prompt", max_length)]
    count = len(given) * request.n
    if count > MAX_CHOICES:
        raise ApiError(
            f"prompt: {len(given):,} prompts with n = {request.n} are {count:,} completions; "
            f"at most {MAX_CHOICES:,} per request",
            param="prompt",
        )
    return [_read_prompt(item, f"prompt[{index}]", max_length) for index, item in enumerate(given)]


def _are_ids(given: list[Any]) -> bool:
    return all(type(item) is int for item in given)


def _read_prompt(given: Any, field: str, max_length: int) -> str:
    def error(message: str, code: str | None = None) -> ApiError:
        return ApiError(f"{field}: {message}", param="prompt", code=code)

    if isinstance(given, list) and _are_ids(given):
        wrong = next((token for token in given if not 0 <= token < isa.VOCABULARY_SIZE), None)
        if wrong is not None:
            limit = isa.VOCABULARY_SIZE - 1
            raise error(f"there is no token id {reprlib.repr(wrong)}; ids are 0 to {limit}")
        given = "".join(isa.INSTRUCTIONS[token].symbol for token in given)
    if not isinstance(given, str):
        raise error(f"must be a string or a list of token ids, got {reprlib.repr(given)}")
    try:
        program = isa.check_program(given)
    except InputError as problem:
        raise error(str(problem)) from None
    instructions = program.removesuffix(isa.END)
    if not instructions:
        raise error("empty; give at least one instruction")
    if isa.END in instructions:
        position = instructions.index(isa.END) + 1
        raise error(f"the end {isa.END} at position {position} must come last")
    if len(instructions) > max_length:
        message = f"has {len(instructions)} instructions, a program at most {max_length}"
        raise error(message, "context_length_exceeded")
    return program
