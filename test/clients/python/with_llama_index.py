"""LlamaIndex by its openai-like packages, told only what they cannot know: that the model chats and calls tools."""

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike


def _open(order):
    return OpenAILike(
        api_base=order["url"],
        api_key=order["key"],
        model=order["model"],
        is_chat_model=True,
        is_function_calling_model=True,
        default_headers=order.get("headers"),
        additional_kwargs={"extra_body": order["extra"]} if order.get("extra") else {},
    )


def _messages(order):
    return [ChatMessage(role="user", content=order["text"])]


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
        ChatMessage(role="tool", content=str(result), additional_kwargs={"tool_call_id": call.tool_id}),
    ]
    again = llm.chat_with_tools([tool], chat_history=messages)
    return {"input": call.tool_kwargs, "text": again.message.content}


def embed(order):
    model = OpenAILikeEmbedding(api_base=order["url"], api_key=order["key"], model_name=order["model"])
    return model.get_text_embedding_batch(order["texts"])
