"""pydantic-ai with its model class for responses."""

import asyncio

from pydantic_ai import Agent, ImageUrl
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


def _agent(order, **more):
    provider = OpenAIProvider(base_url=order["url"], api_key=order["key"])
    settings = {"extra_body": order.get("extra"), "extra_headers": order.get("headers")}
    return Agent(
        OpenAIResponsesModel(order["model"], provider=provider),
        model_settings={name: value for name, value in settings.items() if value},
        **more,
    )


def _input(order):
    return [order["text"], ImageUrl(order["image"])] if "image" in order else order["text"]


def chat(order):
    return _agent(order).run_sync(_input(order)).output


def stream(order):
    async def read():
        async with _agent(order).run_stream(_input(order)) as result:
            return "".join([piece async for piece in result.stream_text(delta=True)])

    return asyncio.run(read())


def tools(order):
    inputs = []

    def weather(city: str) -> str:
        """The weather of a city"""
        inputs.append({"city": city})
        return order["toolResult"]

    text = _agent(order, tools=[weather]).run_sync(order["text"]).output
    return {"input": inputs[0], "text": text}
