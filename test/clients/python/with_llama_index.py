"""
LlamaIndex by its openai-like packages, told only what they cannot know: that the model chats and calls tools. Where the
order says so, by its package for OpenAI, with the class that asks for responses.
"""

from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai import OpenAIResponses
from llama_index.llms.openai_like import OpenAILike


def _open(order):
    common = {
        "api_base": order["url"],
        "api_key": order["key"],
        "model": order["model"],
        "default_headers": order.get("headers"),
        "additional_kwargs": {"extra_body": order["extra"]} if order.get("extra") else {},
    }
    if order.get("responses"):
        return OpenAIResponses(context_window=4096, **common)
    return OpenAILike(is_chat_model=True, is_function_calling_model=True, **common)


def _messages(order):
    if "image" not in order:
        return [ChatMessage(role="user", content=order["text"])]
    blocks = [TextBlock(text=order["text"]), ImageBlock(url=order["image"])]
    return [ChatMessage(role="user", blocks=blocks)]


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
    called = {"call_id" if order.get("responses") else "tool_call_id": call.tool_id}
    messages += [answer.message, ChatMessage(role="tool", content=str(result), additional_kwargs=called)]
    again = llm.chat_with_tools([tool], chat_history=messages)
    return {"input": call.tool_kwargs, "text": again.message.content}


def embed(order):
    model = OpenAILikeEmbedding(api_base=order["url"], api_key=order["key"], model_name=order["model"])
    return model.get_text_embedding_batch(order["texts"])
