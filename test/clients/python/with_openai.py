"""The official OpenAI library."""

import json

from openai import OpenAI


def _open(order):
    return OpenAI(base_url=order["url"], api_key=order["key"])


def _create(order, messages=None, **more):
    return _open(order).chat.completions.create(
        model=order["model"],
        messages=messages or [{"role": "user", "content": order["text"]}],
        extra_body=order.get("extra"),
        extra_headers=order.get("headers"),
        **more,
    )


def chat(order):
    return _create(order).choices[0].message.content


def stream(order):
    pieces = (chunk.choices[0].delta.content for chunk in _create(order, stream=True) if chunk.choices)
    return "".join(piece or "" for piece in pieces)


def tools(order):
    offered = [{"type": "function", "function": order["tool"]}]
    message = _create(order, tools=offered).choices[0].message
    call = message.tool_calls[0]
    messages = [
        {"role": "user", "content": order["text"]},
        message,
        {"role": "tool", "tool_call_id": call.id, "content": order["toolResult"]},
    ]
    again = _create(order, messages, tools=offered).choices[0].message
    return {"input": json.loads(call.function.arguments), "text": again.content}


def embed(order):
    answer = _open(order).embeddings.create(model=order["model"], input=order["texts"])
    return [entry.embedding for entry in answer.data]


def models(order):
    return [model.id for model in _open(order).models.list()]
