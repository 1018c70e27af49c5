"""A server of OpenAI's interface, for as long as a `with` lasts."""

import os
import re
import signal
import subprocess
import threading
from types import TracebackType
from typing import Any, List, Optional, Type, Union

from ._program import error_of, flags, start

PATIENCE = 15.0  # seconds that answers have to end; the program's own patience is shorter
ADDRESS = re.compile(r"is served at (http://\S+/v1)")


class Server:
    """`spillway serve`: with Server("model") as server: ... server.base_url

    options: those of the command, such as adapter="out", context=2048; the port is one that is free unless `port` is
    given. The program ends with the `with`, and running answers have some seconds to do so.
    """

    def __init__(
        self, model: Union[str, "os.PathLike[str]"], *, adapter: Union[str, "os.PathLike[str]", None] = None, port: int = 0, **options: Any
    ) -> None:
        self._words = ["serve", os.fspath(model), *flags({"adapter": adapter, "port": port, **options})]
        self._log: List[str] = []
        self._process: Optional["subprocess.Popen[str]"] = None
        self._reader: Optional[threading.Thread] = None
        self._answers = threading.Event()
        self._base_url = ""

    @property
    def base_url(self) -> str:
        """The base_url for OpenAI's client: "http://127.0.0.1:PORT/v1"; empty before the `with` and behind it."""
        return self._base_url

    @property
    def log(self) -> str:
        return "".join(line + "\n" for line in self._log)

    def start(self) -> "Server":
        """Starts the program and waits until it answers. Raises its error if it does not come to that."""
        self._process = start(self._words, subprocess.DEVNULL)
        self._reader = threading.Thread(target=self._read_log, args=(self._process,), name="spillway serve", daemon=True)
        self._reader.start()
        try:
            self._answers.wait()
        except BaseException:
            self.close()
            raise
        if not self._base_url:
            raise error_of(self._process.wait(), self._log)
        return self

    def close(self) -> None:
        """Ends the program."""
        process, self._process, self._base_url = self._process, None, ""
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._reader:
            self._reader.join()

    def __enter__(self) -> "Server":
        return self.start()

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def _read_log(self, process: "subprocess.Popen[str]") -> None:
        assert process.stderr
        with process.stderr as said:
            for text in said:
                self._log.append(text.rstrip("\n"))
                found = ADDRESS.search(text)
                if found and not self._base_url:
                    self._base_url = found.group(1)
                    self._answers.set()
        self._answers.set()  # it has ended
