"""The official Anthropic library. Bodies come ready-made, as it takes them."""

import inspect

from anthropic import Anthropic, beta_tool


def _open(order):
    return Anthropic(base_url=order["url"], api_key=order["key"])


def _arguments(call, body):
    """What the library has no argument for goes by its own way to send more."""
    known = inspect.signature(call).parameters
    arguments = {name: value for name, value in body.items() if name in known}
    return {**arguments, "extra_body": {name: body[name] for name in body if name not in known} or None}


def whole(order):
    call = _open(order).messages.create
    return call(**_arguments(call, order["body"])).model_dump(mode="json")


def stream(order):
    call = _open(order).messages.stream
    with call(**_arguments(call, order["body"])) as events:
        return events.get_final_message().model_dump(mode="json")


def converse(order):
    inputs = []

    @beta_tool
    def weather(city: str) -> str:
        """The weather of a city"""
        inputs.append({"city": city})
        return order["toolResult"]

    messages = _open(order).beta.messages
    # The older versions know no threads, and would refuse the argument.
    knows_threads = "thread" in inspect.signature(messages.tool_runner).parameters
    more = {"thread": False} if knows_threads and not order.get("byThread") else {}
    last = messages.tool_runner(**{**order["body"], "tools": [weather]}, **more).until_done()
    return {"inputs": inputs, "message": last.model_dump(mode="json")}


def count_tokens(order):
    body = {name: value for name, value in order["body"].items() if name != "max_tokens"}
    return _open(order).messages.count_tokens(**body).input_tokens


def models(order):
    client = _open(order)
    return [client.models.retrieve(model.id).id for model in client.models.list()]
