"""Where the program is, how it is called, and what its exit status means."""

import json
import os
import signal
import subprocess
import sysconfig
import warnings
from typing import Any, Dict, Iterable, List, Mapping

DONE, INPUT_WRONG, INTERRUPTED = 0, 2, 130


class SpillwayError(Exception):
    """The program refused or failed; the text is its message. `status` is its exit status, `log` all that it said."""

    def __init__(self, message: str, status: int = 1, log: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.log = log


class InputError(SpillwayError, ValueError):
    """Something that was given is wrong: a config, data, a folder, a budget that cannot be met (exit status 2)."""


class MachineError(SpillwayError, RuntimeError):
    """The machine failed: a full disk, a lost device, or a signal that ended the program (exit status 3, or others)."""


def places() -> List[str]:
    """Returns the paths at which pip may have laid the program, the likeliest first."""
    folders = [sysconfig.get_path("scripts")]
    user = "posix_user" if os.name == "posix" else "nt_user"
    if user in sysconfig.get_scheme_names():  # pip install --user
        folders.append(sysconfig.get_path("scripts", user))
    package = os.path.dirname(os.path.abspath(__file__))
    folders.append(os.path.join(os.path.dirname(package), "bin"))  # pip install --target
    return [os.path.join(folder, "spillway") for folder in folders]


def warn_of_two_wheels() -> None:
    """Warns if pip has laid the wheels with and without CUDA into one place: they hold files of the same names."""
    package = os.path.dirname(os.path.abspath(__file__))
    try:
        names = os.listdir(os.path.dirname(package))
    except OSError:
        return
    found = {name.split("-")[0] for name in names if name.endswith(".dist-info")}
    both = [name.replace("_", "-") for name in ("spillway_train", "spillway_train_cu13") if name in found]
    if len(both) > 1:
        warnings.warn(
            f"[spillway_train] expected one of {' and '.join(both)}, got both, which hold the same files; run "
            f"pip uninstall {' '.join(both)}, and install one of them",
            stacklevel=3,
        )


def program() -> str:
    """Returns the path of the program: what the variable SPILLWAY names, or else where pip has put it."""
    named = os.environ.get("SPILLWAY")
    found = [path for path in ([named] if named else places()) if os.access(path, os.X_OK) and os.path.isfile(path)]
    if found:
        return found[0]
    if named:
        raise InputError(
            f"[SPILLWAY] expected a program, got nothing that can be run at {named}; correct the variable, or unset it",
            INPUT_WRONG,
        )
    raise InputError(
        f"[spillway_train] expected the program at {places()[0]}, got nothing that can be run there; run "
        "pip install --force-reinstall spillway-train, or name the program in the variable SPILLWAY",
        INPUT_WRONG,
    )


def plain(value: Any) -> Any:
    """Returns what JSON has for a path, or for a number or an array of NumPy or torch."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if callable(getattr(value, "tolist", None)):
        return value.tolist()
    raise TypeError(f"{value!r}, of type {type(value).__name__}")


def word(value: Any) -> str:
    """Returns a value as the command line has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=plain)


def value_of_key(value: Any) -> str:
    """Returns a key's value as the command line has it: a text that would be read as something else is quoted."""
    is_other = isinstance(value, str) and (value in ("", "null", "~") or value[0] in '[{"')
    return json.dumps(value, ensure_ascii=False) if is_other else word(value)


def options(values: Mapping[str, Any], prefix: str = "--") -> List[str]:
    """Returns the arguments that set keys: a dict is nested keys, unless it is empty or names have dots in it."""
    result: List[str] = []
    for key, value in values.items():
        if isinstance(value, Mapping) and value and not any("." in str(one) for one in value):
            result += options(value, f"{prefix}{key}.")
        else:
            result.append(f"{prefix}{key}={value_of_key(value)}")
    return result


def flags(values: Mapping[str, Any]) -> List[str]:
    """Returns the arguments of a command that takes no config: True is a flag, None and False leave one out."""
    given = {key.replace("_", "-"): value for key, value in values.items() if value is not None and value is not False}
    return [f"--{key}" if value is True else f"--{key}={word(value)}" for key, value in given.items()]


def message_of(log: Iterable[str]) -> str:
    """Returns the program's message: the last line of the form `[where] expected ...`, or else the last lines."""
    lines = [line.rstrip() for line in log if line.strip()]
    messages = [line for line in lines if line.startswith("[") and "] " in line]
    return messages[-1] if messages else "\n".join(lines[-5:])


def error_of(status: int, log: Iterable[str]) -> SpillwayError:
    """Returns the error of a program that ended with this status of subprocess."""
    lines = list(log)
    message, text = message_of(lines), "".join(line.rstrip() + "\n" for line in lines)
    if status < 0:
        ended = f"[spillway] expected to end by itself, got signal {-status} ({signal.Signals(-status).name})"
        return MachineError(f"{ended}; see what ended it, such as a lack of memory", 128 - status, text)
    if status == INPUT_WRONG:
        return InputError(message, status, text)
    return MachineError(message or f"[spillway] expected exit status 0, got {status}", status, text)


def start(arguments: List[str], stdout: int) -> "subprocess.Popen[str]":
    """Starts the program; what it says comes by stderr. In a session of its own, so that a Ctrl-C comes from here alone."""
    return subprocess.Popen(
        [program(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        start_new_session=True,
        encoding="utf-8",
        errors="replace",
    )


def call(arguments: List[str], also: Iterable[int] = ()) -> "subprocess.CompletedProcess[str]":
    """Runs the program to its end. Raises its error unless it ends with 0, or prints something with a status of `also`."""
    done = subprocess.run(
        [program(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode == DONE or (done.returncode in also and done.stdout.strip()):
        return done
    raise error_of(done.returncode, done.stderr.splitlines())


def call_json(arguments: List[str], also: Iterable[int] = ()) -> Dict[str, Any]:
    """Returns the document that the program prints."""
    document: Dict[str, Any] = json.loads(call(arguments, also).stdout)
    return document
