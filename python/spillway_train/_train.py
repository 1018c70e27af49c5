"""A training run: the program, started, watched and ended."""

import atexit
import json
import logging
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, TypeVar

from ._bar import Bar
from ._config import Arguments, Config
from ._program import DONE, INTERRUPTED, SpillwayError, error_of, start
from ._rewards import RewardServer

Line = Dict[str, Any]
T = TypeVar("T")
logger = logging.getLogger("spillway_train")


class Run:
    """A training that goes on in a process of its own. Its functions may be called from any thread.

    Ctrl-C in wait() or metrics() is handed on: the run stops behind a step with a checkpoint, and KeyboardInterrupt
    follows; a second Ctrl-C ends it at once. A run that is not waited for is waited for when Python exits, and stopped
    where Ctrl-C has ended the script.
    """

    def __init__(self, arguments: Arguments, progress: Optional[bool]) -> None:
        self._arguments = arguments
        self._changed = threading.Condition()
        self._lines: List[Line] = []
        self._log: List[str] = []
        self._begin: Optional[Line] = None
        self._status: Optional[int] = None  # of subprocess
        self._rewards: Optional[RewardServer] = None
        words = ["train", *arguments.words, "--json-lines"]
        try:
            if arguments.functions:
                self._rewards = RewardServer(arguments.functions, arguments.room())
                words.append(f"--trl.reward_python={self._rewards.interpreter}")
            self._process = start(words, subprocess.PIPE)
        except BaseException:
            self._clear()
            raise
        self._bar = Bar(progress)
        said = threading.Thread(target=self._read_log, name="spillway log", daemon=True)
        said.start()
        threading.Thread(target=self._read, args=(said,), name="spillway metrics", daemon=True).start()
        _runs.add(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> Optional[int]:
        """The program's exit status: 0 done, 130 interrupted, 2 wrong input, 3 the machine failed; None while it runs."""
        with self._changed:
            return None if self._status is None else self._status if self._status >= 0 else 128 - self._status

    @property
    def log(self) -> str:
        """The output of the program so far: the plan, notes and messages."""
        with self._changed:
            return "".join(line + "\n" for line in self._log)

    @property
    def output_dir(self) -> Path:
        """The folder of the run; waits until training begins. Raises the run's error if it does not."""
        return Path(self._begun()["output_dir"])

    @property
    def total_steps(self) -> int:
        """The number of steps of the whole run; waits as output_dir does."""
        return int(self._begun()["total_steps"])

    @property
    def report(self) -> Dict[str, Any]:
        """report.json; waits for the end of the run."""
        self.wait()
        report: Dict[str, Any] = json.loads((self.output_dir / "report.json").read_text(encoding="utf-8"))
        return report

    def metrics(self) -> Iterator[Line]:
        """Yields the lines of metrics.jsonl as they are written, from the first of this run on, to its end.

        A step's line has `loss`; an evaluation's has `eval_loss` instead. Raises the run's error behind the last line.
        """
        taken = 0
        while True:
            line = self._until(lambda: self._lines[taken] if len(self._lines) > taken else None)
            if line is None:
                break
            taken += 1
            yield dict(line)
        self._check()

    def wait(self) -> int:
        """Waits for the end, and returns the exit status: 0, or 130 of a run that was interrupted.

        Raises InputError or MachineError with the program's message; its cause is what a reward function raised.
        """
        self._until(lambda: None)
        return self._check()

    def interrupt(self) -> None:
        """Asks the run to stop behind its step, with a checkpoint; the second time, to end at once. Returns at once."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def _until(self, ready: Callable[[], Optional[T]]) -> Optional[T]:
        """Waits until `ready` returns something, which it returns, or the run has ended. Hands Ctrl-C on."""
        is_interrupted = False
        while True:
            try:
                with self._changed:
                    while True:
                        value = ready()
                        if (value is not None and not is_interrupted) or self._status is not None:
                            break
                        self._changed.wait()
            except KeyboardInterrupt:
                is_interrupted = True
                self.interrupt()
                continue
            if is_interrupted:
                raise KeyboardInterrupt
            return value

    def _begun(self) -> Line:
        begin = self._until(lambda: self._begin)
        if begin is None:
            self._check()
            raise error_of(self._status or DONE, ["[spillway] expected the run to begin, got its end; see its log"])
        return begin

    def _check(self) -> int:
        """Raises the error of a run that has failed."""
        with self._changed:
            status, log = self._status or DONE, list(self._log)
        if status in (DONE, INTERRUPTED, -signal.SIGINT):
            return abs(status) if status >= 0 else INTERRUPTED
        raise error_of(status, log) from (self._rewards.error if self._rewards else None)

    def _read_log(self) -> None:
        assert self._process.stderr
        with self._process.stderr as said:
            for text in said:
                line = self._arguments.shown(text.rstrip("\n"))
                with self._changed:
                    self._log.append(line)
                logger.log(logging.WARNING if line.startswith("warning: ") else logging.INFO, "%s", line)

    def _read(self, said: threading.Thread) -> None:
        assert self._process.stdout
        with self._process.stdout as printed:
            for text in printed:
                self._take(json.loads(text))
        status = self._process.wait()
        said.join()
        self._bar.end()
        self._clear()
        with self._changed:
            self._status = status
            self._changed.notify_all()

    def _take(self, line: Line) -> None:
        with self._changed:
            if self._begin is None:
                self._begin = line
                self._bar.begin(line["step"], line["total_steps"])
            else:
                self._lines.append(line)
                self._bar.update(line)
            self._changed.notify_all()

    def _clear(self) -> None:
        if self._rewards:
            self._rewards.close()
        self._arguments.close()

    def __repr__(self) -> str:
        with self._changed:
            step = self._lines[-1]["step"] if self._lines else (self._begin or {}).get("step", 0)
            total = (self._begin or {}).get("total_steps", "?")
        status = self.status
        state = "running" if status is None else {DONE: "done", INTERRUPTED: "interrupted"}.get(status, "failed")
        return f"<Run: {state}, step {step}/{total}>"


_runs: "weakref.WeakSet[Run]" = weakref.WeakSet()


@atexit.register
def _wait_for_runs() -> None:
    """Waits for runs that nobody waited for. A Ctrl-C that ended the script outside of wait() stops them, too."""
    is_interrupted = getattr(sys, "last_type", None) is KeyboardInterrupt
    for run in list(_runs):
        if is_interrupted:
            run.interrupt()
        if run.status is None:
            try:
                run.wait()
            except SpillwayError as error:
                logger.error("%s", error)


def train(config: Optional[Config] = None, *, progress: Optional[bool] = None, **overrides: Any) -> Run:
    """Starts `spillway train` and returns the run.

    config: the path of a config, the text of one, or a dict. Callables in it, such as `reward_funcs`, are called in this
    process. overrides: keys of the config; a dict is nested keys (`memory={"device": "6GiB"}`). Options of the command
    are given the same way (`ranks=2`). progress: whether a bar is drawn; left out, in terminals and notebooks.
    Returns before the config is read: what is wrong with it is raised by the run's functions.
    """
    return Run(Arguments(config, overrides), progress)
