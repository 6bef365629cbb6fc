"""LlamaIndex by its package for OpenAI, with the class that asks for responses."""

from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai import OpenAIResponses


def _open(order):
    return OpenAIResponses(
        api_base=order["url"],
        api_key=order["key"],
        model=order["model"],
        context_window=4096,
        default_headers=order.get("headers"),
        additional_kwargs={"extra_body": order["extra"]} if order.get("extra") else {},
    )


def _messages(order):
    if "image" not in order:
        return [ChatMessage(role="user", content=order["text"])]
    picture = ImageBlock(url=order["image"])
    return [ChatMessage(role="user", blocks=[TextBlock(text=order["text"]), picture])]


def chat(order):
    return _open(order).chat(_messages(order)).message.content


def stream(order):
    return "".join(part.delta or "" for part in _open(order).stream_chat(_messages(order)))


def tools(order):
    def weather(city: str) -> str:
        """The weather of a city"""
        return order["toolResult"]

    llm = _open(order)
    tool = FunctionTool.from_defaults(weather)
    messages = _messages(order)
    answer = llm.chat_with_tools([tool], chat_history=messages)
    call = llm.get_tool_calls_from_response(answer)[0]
    result = tool(**call.tool_kwargs)
    messages += [
        answer.message,
        ChatMessage(role="tool", content=str(result), additional_kwargs={"call_id": call.tool_id}),
    ]
    again = llm.chat_with_tools([tool], chat_history=messages)
    return {"input": call.tool_kwargs, "text": again.message.content}
