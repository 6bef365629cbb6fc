"""The official OpenAI library on POST /v1/responses; streams are read by its own reader."""

import json

from with_openai import _open


def _input(order):
    if "image" not in order:
        return order["text"]
    parts = [
        {"type": "input_text", "text": order["text"]},
        {"type": "input_image", "image_url": order["image"], "detail": "auto"},
    ]
    return [{"role": "user", "content": parts}]


def _asked(order, **more):
    return {
        "model": order["model"],
        "input": _input(order),
        "extra_body": order.get("extra"),
        "extra_headers": order.get("headers"),
        **more,
    }


def chat(order):
    return _open(order).responses.create(**_asked(order)).output_text


def stream(order):
    with _open(order).responses.stream(**_asked(order)) as events:
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        if events.get_final_response().output_text != text:
            raise ValueError("the end of the stream has another text")
    return text


def tools(order):
    offered = [{"type": "function", "strict": False, **order["tool"]}]
    asked = [{"role": "user", "content": order["text"]}]
    answer = _open(order).responses.create(**_asked(order, input=asked, tools=offered))
    call = next(item for item in answer.output if item.type == "function_call")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": order["toolResult"]}
    again = [*asked, *answer.output, result]
    return {
        "input": json.loads(call.arguments),
        "text": _open(order).responses.create(**_asked(order, input=again, tools=offered)).output_text,
    }
