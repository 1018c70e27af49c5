#!/usr/bin/env python3
"""Asks `spillway serve` what the README of OpenAI's Python client shows, with that client, and checks what comes back.

    pip install -r tools/openai_requirements.txt
    python3 tools/check_openai_client.py build/release/bin/spillway

The model is a tiny one with random weights, whose chat template shows Hermes' tool calls.
"""
import asyncio
import contextlib
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import typing
import urllib.error
import urllib.request

import openai
import pydantic

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEMPLATE = (
    "{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
)
MESSAGES = [
    {"role": "developer", "content": "Talk like a pirate."},
    {"role": "user", "content": "How do I check if a Python object is an instance of a class?"},
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Paris", "Bogotá"]}, "days": {"type": "integer", "maximum": 7, "minimum": 1}},
                "required": ["city", "days"],
                "additionalProperties": False,
            },
        },
    }
]


class Step(pydantic.BaseModel):
    kind: typing.Literal["add", "multiply"]
    by: bool


class Answer(pydantic.BaseModel):
    steps: typing.Annotated[list[Step], pydantic.Field(min_length=1, max_length=2)]
    is_final: bool


class GetOrder(pydantic.BaseModel):
    status: typing.Literal["open", "sent"]


@contextlib.contextmanager
def server(spillway: str) -> typing.Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        model = pathlib.Path(folder) / "tiny"
        subprocess.run([sys.executable, ROOT / "tools/make_random_model.py", "tiny", model], check=True, stdout=subprocess.DEVNULL)
        (model / "chat_template.jinja").write_text(TEMPLATE)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        process = subprocess.Popen([spillway, "serve", str(model), "--port", str(port)], stderr=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(600):
                with contextlib.suppress(urllib.error.URLError):
                    urllib.request.urlopen(f"{url}/health").close()
                    break
                time.sleep(0.1)
            yield f"{url}/v1"
        finally:
            process.terminate()
            process.wait()


def check_chat(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(model="tiny", messages=MESSAGES, max_completion_tokens=8, seed=1)
    assert completion.choices[0].finish_reason in ("length", "stop"), completion
    assert completion.usage.completion_tokens <= 8
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").object == "model"
    raw = client.chat.completions.with_raw_response.create(model="tiny", messages=MESSAGES, max_tokens=2)
    assert raw.parse().choices[0].message.role == "assistant"
    text = client.completions.create(model="tiny", prompt="Say this is a test", max_tokens=4, temperature=0)
    assert text.choices[0].finish_reason in ("length", "stop")


def check_streams(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=12, seed=3)
    stream = client.chat.completions.create(
        model="tiny", messages=MESSAGES, max_tokens=12, seed=3, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content, (text, whole)
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    with client.chat.completions.stream(model="tiny", messages=MESSAGES, max_tokens=12, seed=3) as events:
        kinds = {event.type for event in events}
        assert "chunk" in kinds, kinds
        try:
            final = events.get_final_completion()
        except openai.LengthFinishReasonError as error:  # the client's own way of telling of max_tokens
            final = error.completion
        assert final.choices[0].message.content == text


def check_tools(client: openai.OpenAI) -> None:
    asked = dict(model="tiny", messages=MESSAGES, tools=TOOLS, max_tokens=300, seed=2)
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        answer = client.chat.completions.create(**asked, tool_choice=choice, parallel_tool_calls=False).choices[0]
        assert answer.finish_reason == "tool_calls", answer
        (call,) = answer.message.tool_calls
        assert call.function.name == "get_weather" and call.id
        chunks = client.chat.completions.create(**asked, tool_choice=choice, parallel_tool_calls=False, stream=True)
        streamed = "".join(
            part.function.arguments or "" for chunk in chunks for part in chunk.choices[0].delta.tool_calls or []
        )
        assert streamed == call.function.arguments, (streamed, call)
        # The next request tells the call, and its result.
        told = [*MESSAGES, answer.message, {"role": "tool", "tool_call_id": call.id, "content": "14"}]
        client.chat.completions.create(model="tiny", messages=told, tools=TOOLS, max_tokens=2)
    auto = client.chat.completions.create(**{**asked, "max_tokens": 4}, tool_choice="auto").choices[0]
    assert auto.message.tool_calls is None
    parsed = client.chat.completions.parse(
        model="tiny",
        messages=MESSAGES,
        tools=[openai.pydantic_function_tool(GetOrder)],
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=300,
    )
    assert isinstance(parsed.choices[0].message.tool_calls[0].function.parsed_arguments, GetOrder)


def check_structured(client: openai.OpenAI) -> None:
    completion = client.chat.completions.parse(model="tiny", messages=MESSAGES, response_format=Answer, max_tokens=300, seed=4)
    assert isinstance(completion.choices[0].message.parsed, Answer), completion
    assert 1 <= len(completion.choices[0].message.parsed.steps) <= 2


def check_errors(client: openai.OpenAI) -> None:
    try:
        client.chat.completions.create(model="tiny", messages=[])
        raise AssertionError("expected BadRequestError, got an answer")
    except openai.BadRequestError as error:
        assert error.status_code == 400 and error.param == "messages", error
    try:
        client.models.retrieve("other")
        raise AssertionError("expected NotFoundError, got a model")
    except openai.NotFoundError as error:
        assert error.status_code == 404


async def check_async(url: str) -> None:
    async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
        stream = await client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=4, stream=True)
        assert [chunk async for chunk in stream][-1].choices[0].finish_reason
        answers = await asyncio.gather(
            *(client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=4, seed=5) for _ in range(3))
        )
        assert len({answer.choices[0].message.content for answer in answers}) == 1


def main() -> None:
    with server(sys.argv[1]) as url:
        client = openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=120)
        for check in (check_chat, check_streams, check_structured, check_errors, check_tools):
            check(client)
            print(f"{check.__name__.removeprefix('check_')}: ok", flush=True)
        asyncio.run(check_async(url))
        print("async: ok")


if __name__ == "__main__":
    main()
