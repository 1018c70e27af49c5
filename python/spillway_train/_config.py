"""Configs as the program takes them: a file, and keys that are set on the command line."""

import json
import os
import shutil
import tempfile
from types import TracebackType
from typing import Any, Callable, Dict, List, Mapping, Optional, Type, Union

from ._program import INPUT_WRONG, InputError, options, plain

Config = Union[str, "os.PathLike[str]", Mapping[str, Any]]


class Arguments:
    """The arguments for a config, with a folder for what has to be a file. Leaving the `with` removes the folder.

    A config is the path of a file, the text of one, or a dict. Callables in it, or in the keys beside it, are replaced
    by names; `functions` has them.
    """

    def __init__(self, config: Optional[Config], keys: Mapping[str, Any]) -> None:
        self.functions: Dict[str, Callable[..., Any]] = {}
        self.folder: Optional[str] = None
        self.words: List[str] = []
        try:
            if config is not None:
                self.words.append(self._path_of(config))
            self.words += options(self._named(keys))
        except (TypeError, ValueError) as error:
            self.close()
            if isinstance(error, InputError):
                raise
            raise InputError(f"[config] expected values that JSON has, got: {error}; correct them", INPUT_WRONG) from error

    def __enter__(self) -> "Arguments":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def close(self) -> None:
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def room(self) -> str:
        """Returns the folder for files, which nobody else can read."""
        if not self.folder:
            self.folder = tempfile.mkdtemp(prefix="spillway-")
        return self.folder

    def shown(self, text: str) -> str:
        """Returns a text of the program without the folder, whose name says nothing to a reader."""
        return text.replace(self.folder + os.sep, "") if self.folder else text

    def _path_of(self, config: Config) -> str:
        if isinstance(config, Mapping):
            return self._written(json.dumps(self._named(config), ensure_ascii=False, allow_nan=False, default=plain))
        if isinstance(config, str) and ("\n" in config or ": " in config) and not os.path.exists(config):
            return self._written(config)
        path = os.fspath(config)
        return path if not path.startswith("-") else os.path.join(".", path)

    def _written(self, text: str) -> str:
        path = os.path.join(self.room(), "config.yml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def _named(self, value: Any) -> Any:
        """Returns a value with the names of callables in their place."""
        if isinstance(value, Mapping):
            return {str(key): self._named(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._named(one) for one in value]
        return self._name_of(value) if callable(value) else value

    def _name_of(self, function: Callable[..., Any]) -> str:
        own = getattr(function, "__name__", type(function).__name__)
        own = own if own.isidentifier() else "reward"  # <lambda>
        module = getattr(function, "__module__", None) or "__main__"
        name, count = f"{module}.{own}", 1
        while self.functions.get(name, function) is not function:
            count += 1
            name = f"{module}.{own}_{count}"
        self.functions[name] = function
        return name
