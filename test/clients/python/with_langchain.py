"""LangChain with its OpenAI package. It lists no models."""

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings


def _open(order):
    return ChatOpenAI(
        base_url=order["url"],
        api_key=order["key"],
        model=order["model"],
        extra_body=order.get("extra"),
        default_headers=order.get("headers"),
    )


def chat(order):
    return _open(order).invoke(order["text"]).content


def stream(order):
    return "".join(chunk.content for chunk in _open(order).stream(order["text"]))


def tools(order):
    bound = _open(order).bind_tools([{"type": "function", "function": order["tool"]}])
    asked = HumanMessage(order["text"])
    answer = bound.invoke([asked])
    call = answer.tool_calls[0]
    result = ToolMessage(order["toolResult"], tool_call_id=call["id"])
    return {"input": call["args"], "text": bound.invoke([asked, answer, result]).content}


def embed(order):
    # Its own token counting would fetch a vocabulary from the net.
    model = OpenAIEmbeddings(
        base_url=order["url"],
        api_key=order["key"],
        model=order["model"],
        check_embedding_ctx_length=False,
    )
    return model.embed_documents(order["texts"])
