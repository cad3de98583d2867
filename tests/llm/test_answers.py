import pytest

from cadmus.llm import ModelOutputError
from cadmus.llm.answers import Answer, read_reply

USAGE = {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}

CHAT, RESPONSES, COMPLETIONS = "/v1/chat/completions", "/v1/responses", "/v1/completions"


def chat(content, finish_reason="stop", **message):
    message = {"content": content, **message}
    return {"choices": [{"message": message, "finish_reason": finish_reason}], **USAGE}


def response(*parts, status="completed", reason=None):
    output = [{"type": "reasoning", "summary": []}, {"type": "message", "content": list(parts)}]
    details = {"reason": reason} if reason else None
    usage = {"input_tokens": 3, "output_tokens": 4}
    return {"status": status, "incomplete_details": details, "output": output, "usage": usage}


TEXT, REFUSAL = {"type": "output_text", "text": "<"}, {"type": "refusal", "refusal": "no"}


@pytest.mark.parametrize(
    ("url", "body", "text", "fault"),
    [
        (CHAT, chat("<"), "<", None),
        (
            CHAT,
            chat([{"type": "text", "text": "<"}, {"type": "thinking"}, {"type": "text", "text": ">"}]),
            "<>",
            None,
        ),
        (CHAT, chat([]), "", None),
        (CHAT, chat([REFUSAL]), "no", "refused"),
        (CHAT, chat("<\ud800"), "<\ufffd", None),
        (CHAT, chat(None), "", None),
        (CHAT, chat("<", "length"), "<", "truncated"),
        (CHAT, chat(None, "length"), "", "truncated"),
        (CHAT, chat(None, refusal="no"), "no", "refused"),
        (CHAT, chat("", "content_filter"), "", "refused"),
        (COMPLETIONS, {"choices": [{"text": "<", "finish_reason": "stop"}], **USAGE}, "<", None),
        (COMPLETIONS, {"choices": [{"text": "<", "finish_reason": "length"}], **USAGE}, "<", "truncated"),
        (RESPONSES, response(TEXT), "<", None),
        (RESPONSES, response(REFUSAL), "no", "refused"),
        (RESPONSES, response(TEXT, status="incomplete", reason="max_output_tokens"), "<", "truncated"),
        (RESPONSES, response(status="incomplete", reason="content_filter"), "", "refused"),
    ],
)
def test_read_reply(url, body, text, fault):
    assert read_reply(url, body) == Answer(text, fault, 3, 4)
    assert read_reply(url, {**body, "usage": None}) == Answer(text, fault, None, None)


@pytest.mark.parametrize(
    ("url", "body"),
    [
        (CHAT, []),
        (CHAT, {}),
        (CHAT, {"choices": []}),
        (CHAT, {"choices": [{"message": {"content": 7}, "finish_reason": "stop"}]}),
        (RESPONSES, response(status="in_progress")),
        (RESPONSES, {"output": "<"}),
        (COMPLETIONS, {"choices": [{"message": {"content": "<"}}]}),
    ],
)
def test_malformed_replies(url, body):
    with pytest.raises(ModelOutputError):
        read_reply(url, body)
