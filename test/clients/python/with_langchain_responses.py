"""LangChain with its OpenAI package, told to ask for responses."""

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI


def _open(order):
    return ChatOpenAI(
        base_url=order["url"],
        api_key=order["key"],
        model=order["model"],
        use_responses_api=True,
        extra_body=order.get("extra"),
        default_headers=order.get("headers"),
    )


def _input(order):
    if "image" not in order:
        return order["text"]
    picture = {"type": "image_url", "image_url": {"url": order["image"]}}
    return [HumanMessage([{"type": "text", "text": order["text"]}, picture])]


def chat(order):
    return _open(order).invoke(_input(order)).text


def stream(order):
    return "".join(chunk.text for chunk in _open(order).stream(_input(order)))


def tools(order):
    bound = _open(order).bind_tools([{"type": "function", "function": order["tool"]}])
    asked = HumanMessage(order["text"])
    answer = bound.invoke([asked])
    call = answer.tool_calls[0]
    result = ToolMessage(order["toolResult"], tool_call_id=call["id"])
    return {"input": call["args"], "text": bound.invoke([asked, answer, result]).text}
