"""Text from a model."""

import json
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union, overload

from ._config import Arguments
from ._program import INPUT_WRONG, InputError, call, flags, plain

Message = Mapping[str, Any]
# The options that generate() gives the program itself.
_OWN_OPTIONS = {"prompt", "messages", "lines", "json", "json_lines", "help"}
# A text to continue, or a conversation to answer.
Prompt = Union[str, Sequence[Message]]
Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Generation:
    """The text that a model has written. str() of it is the text."""

    text: str
    ids: List[int]
    prompt_ids: List[int]
    finish_reason: str  # "stop" or "length"
    logprobs: Optional[List[float]] = None  # of the tokens, where they were asked for

    def __str__(self) -> str:
        return self.text


def _line(prompt: Any) -> Dict[str, Any]:
    if isinstance(prompt, str):
        return {"prompt": prompt}
    if isinstance(prompt, Mapping):  # a line as the program takes it, with options of its own
        return dict(prompt)
    return {"messages": list(prompt)}


def _is_one(prompt: Any) -> bool:
    return isinstance(prompt, (str, Mapping)) or (bool(prompt) and isinstance(prompt[0], Mapping) and "role" in prompt[0])


def _schema_file(folder: str, schema: Mapping[str, Any]) -> str:
    path = os.path.join(folder, "schema.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(schema, file)
    return path


@overload
def generate(model: Path, prompt: str, *, adapter: Optional[Path] = None, **options: Any) -> Generation: ...  # type: ignore
@overload
def generate(model: Path, prompt: Sequence[Message], *, adapter: Optional[Path] = None, **options: Any) -> Generation: ...
@overload
def generate(model: Path, prompt: Sequence[Prompt], *, adapter: Optional[Path] = None, **options: Any) -> List[Generation]: ...
def generate(model: Path, prompt: Any, *, adapter: Optional[Path] = None, **options: Any) -> Any:
    """Continues a text, or answers a conversation (a list of messages); of a list of these, all at once.

    options: those of `spillway generate`, such as max_new_tokens=50, temperature=0.7, seed=1, logprobs=True. A
    json_schema may be a file or the schema itself.
    """
    for name in sorted(_OWN_OPTIONS.intersection(options)):
        raise InputError(f"[{name}] expected options of sampling, got one that generate() sets; remove it", INPUT_WRONG)
    if not hasattr(prompt, "__getitem__"):
        raise InputError(f"[prompt] expected a text, messages or a list of these, got {prompt!r}; correct it", INPUT_WRONG)
    prompts = [prompt] if _is_one(prompt) else list(prompt)
    if not prompts:
        return []
    with Arguments(None, {}) as arguments:
        path = os.path.join(arguments.room(), "prompts.jsonl")
        try:
            with open(path, "w", encoding="utf-8") as file:
                for one in prompts:
                    file.write(json.dumps(_line(one), ensure_ascii=False, default=plain) + "\n")
            if isinstance(options.get("json_schema"), Mapping):
                options["json_schema"] = _schema_file(arguments.room(), options["json_schema"])
            given = flags({"adapter": adapter, **options})
        except (TypeError, ValueError) as error:
            raise InputError(f"[generate] expected texts, messages and numbers, got: {error}; correct them", INPUT_WRONG) from error
        said = call(["generate", os.fspath(model), f"--lines={path}", "--json-lines", *given])
    answers = [json.loads(line) for line in said.stdout.split("\n") if line]  # texts may have other line ends
    made = [
        Generation(one["text"], one["ids"], one["prompt_ids"], one["finish_reason"], one.get("logprobs")) for one in answers
    ]
    return made[0] if _is_one(prompt) else made
