"""The Agents SDK of OpenAI, whose default is to ask for responses. Its traces would go to OpenAI, so it makes none."""

import asyncio

from agents import Agent, ModelSettings, OpenAIProvider, RunConfig, Runner, function_tool

# It keeps its connections, and they belong to the loop that opened them.
_loop = asyncio.new_event_loop()


def _agent(order, **more):
    settings = ModelSettings(extra_body=order.get("extra"), extra_headers=order.get("headers"))
    return Agent(name="assistant", model=order["model"], model_settings=settings, **more)


def _config(order):
    provider = OpenAIProvider(base_url=order["url"], api_key=order["key"])
    return RunConfig(model_provider=provider, tracing_disabled=True)


def _input(order):
    if "image" not in order:
        return order["text"]
    parts = [
        {"type": "input_text", "text": order["text"]},
        {"type": "input_image", "image_url": order["image"], "detail": "auto"},
    ]
    return [{"role": "user", "content": parts}]


def _answer(agent, order):
    running = Runner.run(agent, _input(order), run_config=_config(order))
    return _loop.run_until_complete(running).final_output


def chat(order):
    return _answer(_agent(order), order)


def stream(order):
    async def read():
        result = Runner.run_streamed(_agent(order), _input(order), run_config=_config(order))
        text = ""
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                text += event.data.delta
        if result.final_output != text:
            raise ValueError("the end of the stream has another text")
        return text

    return _loop.run_until_complete(read())


def tools(order):
    inputs = []

    @function_tool
    def weather(city: str) -> str:
        """The weather of a city"""
        inputs.append({"city": city})
        return order["toolResult"]

    text = _answer(_agent(order, tools=[weather]), order)
    return {"input": inputs[0], "text": text}
