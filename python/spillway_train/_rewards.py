"""Reward functions that are callables of this process.

The program calls Python functions in a child process, to which it sends the script that does so and then requests
(docs/rewards.md). Here that child is _reward_bridge.py, which hands all of it on to a thread of this process, where the
same script finds the callables.
"""

import contextlib
import functools
import inspect
import json
import os
import shlex
import socket
import sys
import tempfile
import threading
import types
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

from ._program import INPUT_WRONG, InputError

LONGEST_SOCKET = 100  # bytes of a path, of which Linux takes 107


class RewardServer:
    """Answers the program's requests for the rewards of callables, from a thread, until it is closed."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], folder: str) -> None:
        self.error: Optional[BaseException] = None  # what a function raised last
        self._functions: Dict[str, Callable[..., Any]] = {name: self._watched(one) for name, one in functions.items()}
        if not sys.executable:
            raise InputError("[reward_funcs] expected sys.executable, got none; start Python as a program", INPUT_WRONG)
        self._own: List[str] = []
        path = os.path.join(folder, "rewards")
        if len(os.fsencode(path)) > LONGEST_SOCKET:
            self._own.append(tempfile.mkdtemp(prefix="spillway-", dir="/tmp"))
            path = os.path.join(self._own[0], "rewards")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(path)
        self._socket.listen()
        self._path = path
        self.interpreter = os.path.join(folder, "python")  # for trl.reward_python
        bridge = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_reward_bridge.py")
        command = " ".join(map(shlex.quote, (sys.executable, "-I", "-S", bridge, path)))
        with open(self.interpreter, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec {command}\n")
        os.chmod(self.interpreter, 0o700)
        threading.Thread(target=self._accept, name="spillway rewards", daemon=True).start()

    def close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        except OSError:
            pass
        self._socket.close()
        try:
            os.unlink(self._path)
            for folder in self._own:
                os.rmdir(folder)
        except OSError:
            pass

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function, but for what it raises, which is kept for the run's error."""

        @contextlib.contextmanager
        def kept() -> Iterator[None]:
            try:
                yield
            except BaseException as error:
                self.error = error
                raise

        @functools.wraps(function)
        def watched(*arguments: Any, **named: Any) -> Any:
            with kept():
                return function(*arguments, **named)

        @functools.wraps(function)
        async def awaited(*arguments: Any, **named: Any) -> Any:
            with kept():
                return await function(*arguments, **named)

        call = getattr(function, "__call__", None)  # of an object
        is_awaited = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
        return awaited if is_awaited else watched

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._answer, args=(connection,), name="spillway rewards", daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        import asyncio  # here, as it takes as long as all other imports together

        with connection, connection.makefile("r", encoding="utf-8") as requests, connection.makefile(
            "w", encoding="utf-8", errors="replace"
        ) as answers:
            child: Any = types.ModuleType("spillway_train._reward_child")
            # The script's own file name tells its frames from those of functions.
            exec(compile(json.loads(requests.readline()), "reward_child.py", "exec"), child.__dict__)
            find = child.find
            child.find = lambda wanted: (isinstance(wanted, str) and self._functions.get(wanted)) or find(wanted)
            child.Call.speak = lambda call: None  # what functions print is seen in this process
            loop = asyncio.new_event_loop()
            try:
                child.main(requests, answers, {}, [], loop)
            except OSError:  # the program has ended
                pass
            finally:
                loop.close()
