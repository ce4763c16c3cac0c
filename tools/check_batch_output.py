#!/usr/bin/env python3
"""Compares the output of a batch with OpenAI's published types, those of the openai package (pip install openai).

    tools/check_batch_output.py out.jsonl [in.jsonl]

Every body must be a Completion or a ChatCompletion: strictly, so that a number is no text, and without members that the
type does not have. A prompt that is repeated begins with a token without a probability, null in OpenAI's API and not in
its type. With the input, every request must have one line, by its number and custom_id."""
import json
import sys

import pydantic
from openai.types import Completion
from openai.types.chat import ChatCompletion

TYPES = {"text_completion": Completion, "chat.completion": ChatCompletion}
LINE = {"id", "custom_id", "line", "hash", "error", "response", "usage", "kv", "run"}
SOMETIMES = {"context_hash", "truncated_tokens"}
OWN = {"reasoning_content"}  # of a message, as in vLLM


def unknown_members(model, value, where):
    """Names of members of `value` that are no fields of the pydantic model, and so would be lost."""
    names = []
    for name, member in value.items():
        if name in OWN:
            continue
        if name not in type(model).model_fields:
            names.append(f"{where}.{name}")
            continue
        field = getattr(model, name)
        pairs = zip(field, member) if isinstance(member, list) else [(field, member)]
        for part, plain in pairs:
            if isinstance(part, pydantic.BaseModel):
                names += unknown_members(part, plain, f"{where}.{name}")
    return names


def check_line(text, number):
    line = json.loads(text)
    where = f"line {number}"
    assert set(line) - SOMETIMES == LINE, f"{where} has the members {sorted(line)}"
    assert (line["error"] is None) != (line["response"] is None), f"{where} has not one of error and response"
    if line["error"]:
        assert set(line["error"]) == {"code", "message"}, f"{where}: {line['error']}"
        return line
    response = line["response"]
    assert response["status_code"] == 200 and isinstance(response["request_id"], str), f"{where}: {response}"
    body = response["body"]
    for choice in body["choices"]:
        first = choice["logprobs"] or {}
        if first.get("token_logprobs", [0])[:1] == [None] and first["top_logprobs"][:1] == [None]:
            first["token_logprobs"][0], first["top_logprobs"][0] = 0.0, {}
    model = TYPES[body["object"]].model_validate(body, strict=True)
    lost = unknown_members(model, body, where)
    assert not lost, f"members that OpenAI does not have: {', '.join(lost)}"
    assert body["usage"] == line["usage"], f"{where}: two usages"
    return line


def main():
    lines = [check_line(text, n) for n, text in enumerate(open(sys.argv[1], encoding="utf-8"), 1)]
    if len(sys.argv) > 2:
        requests = [n for n, text in enumerate(open(sys.argv[2], "rb"), 1) if text.strip()]
        assert sorted(line["line"] for line in lines) == requests, "not every request has one line"
        ids = [line["custom_id"] for line in lines if line["custom_id"] is not None]
        assert len(ids) == len(set(ids)), "a custom_id has two lines"
    failed = sum(line["error"] is not None for line in lines)
    print(f"{len(lines)} lines as OpenAI has them, {failed} of them errors")


if __name__ == "__main__":
    main()
