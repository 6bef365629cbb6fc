"""LangChain with its OpenAI package, which asks for responses where the order says so. It lists no models."""

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings


def _open(order):
    return ChatOpenAI(
        base_url=order["url"],
        api_key=order["key"],
        model=order["model"],
        use_responses_api=order.get("responses"),
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


def embed(order):
    # Its own token counting would fetch a vocabulary from the net.
    model = OpenAIEmbeddings(
        base_url=order["url"],
        api_key=order["key"],
        model=order["model"],
        check_embedding_ctx_length=False,
    )
    return model.embed_documents(order["texts"])
