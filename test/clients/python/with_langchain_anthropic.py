"""LangChain with its Anthropic package. It lists no models; asks come in words of no library."""

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage


def _open(order):
    ask = order["ask"]
    output = {"effort": ask.get("effort")}
    if "schema" in ask:
        output["format"] = {"type": "json_schema", "schema": ask["schema"]}
    options = {
        "stop": ask.get("stop"),
        "temperature": ask.get("temperature"),
        "top_p": ask.get("topP"),
        "top_k": ask.get("topK"),
        "thinking": order.get("thinking"),
        "output_config": {name: value for name, value in output.items() if value} or None,
        "model_kwargs": {"metadata": {"user_id": ask["user"]}} if "user" in ask else None,
    }
    model = ChatAnthropic(
        base_url=order["url"],
        api_key=order["key"],
        model=ask["model"],
        max_tokens=ask.get("maxTokens", order["maxTokens"]),
        **{name: value for name, value in options.items() if value is not None},
    )
    if "tools" not in ask:
        return model
    more = {"parallel_tool_calls": False} if ask.get("oneCall") else {}
    choices = {"auto": "auto", "any": "any", "named": "weather", "none": {"type": "none"}}
    return model.bind_tools([order["tool"]], tool_choice=choices[ask["tools"]], **more)


def _messages(order):
    ask = order["ask"]
    hint = {"cache_control": {"type": "ephemeral"}} if ask.get("cache") else {}
    content = [{"type": "text", "text": ask["text"], **hint}]
    if "image" in ask:
        content.append({"type": "image", "base64": ask["image"], "mime_type": "image/png"})
    if len(content) == 1 and not hint:
        content = ask["text"]
    system = [SystemMessage(ask["system"])] if "system" in ask else []
    return [*system, HumanMessage(content)]


def _said(message):
    blocks = [{"type": "text", "text": message.content}] if isinstance(message.content, str) else message.content
    usage = message.usage_metadata
    return {
        "thoughts": "".join(block.get("thinking", "") for block in blocks if block["type"] == "thinking"),
        "text": "".join(block.get("text", "") for block in blocks if block["type"] == "text"),
        "calls": [{"name": call["name"], "input": call["args"]} for call in message.tool_calls],
        "stop": message.response_metadata.get("stop_reason"),
        "stopSequence": message.response_metadata.get("stop_sequence"),
        "inputTokens": usage["input_tokens"],
        "outputTokens": usage["output_tokens"],
    }


def whole(order):
    return _said(_open(order).invoke(_messages(order)))


def stream(order):
    all_of_it = None
    for chunk in _open(order).stream(_messages(order)):
        all_of_it = chunk if all_of_it is None else all_of_it + chunk
    return _said(all_of_it)


def converse(order):
    model = _open(order)
    messages = _messages(order)
    inputs = []
    while len(inputs) < 5:
        answer = model.invoke(messages)
        messages.append(answer)
        if not answer.tool_calls:
            return {"inputs": inputs, "text": _said(answer)["text"]}
        for call in answer.tool_calls:
            inputs.append(call["args"])
            messages.append(ToolMessage(order["toolResult"], tool_call_id=call["id"]))


def count_tokens(order):
    ask = order["ask"]
    bound = _open(order)
    more = {"tools": [order["tool"]]} if "tools" in ask else {}
    return getattr(bound, "bound", bound).get_num_tokens_from_messages(_messages(order), **more)
