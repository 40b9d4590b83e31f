"""Flags for the framework's command inside a container: after the program, or inside a shell line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from spinney.api.changes import Json

_PYTHON = re.compile(r"^(.*/)?python[0-9.]*$")
_SEGMENT_END = re.compile(r"([|&;]+)")


def words_of(container: Json) -> str:
    """Command and arguments as one text, to be searched."""
    return " ".join(str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ())))


def backend_of(container: Json) -> str:
    """The framework that the command runs; empty if it cannot be told."""
    text = words_of(container)
    for name in ("vllm", "sglang", "trtllm"):
        if re.search(rf"python[0-9.]*\s.*-m\s.*dynamo\.{name}\b", text, re.DOTALL):
            return name
    return ""


def number_after(container: Json, *flags: str) -> int:
    """The value of a flag, `--flag 4` or `--flag=4`; 1 where it is not given."""
    text = words_of(container)
    for flag in flags:
        found = re.search(rf"(?:^|\s){re.escape(flag)}[=\s]+(\d+)", text)
        if found:
            return int(found.group(1))
    return 1


def has_flag(container: Json, flag: str) -> bool:
    return re.search(rf"(?:^|\s){re.escape(flag)}(?=$|[\s=])", words_of(container)) is not None


def inject(container: Json, framework: str, flags: Sequence[str], *, shell: bool) -> None:
    """Put flags into the command. `shell`: they hold an expression that only a shell can work out."""
    command, args = list(container.get("command") or ()), list(container.get("args") or ())
    if command and _PYTHON.match(str(command[0])):
        if not shell:
            container["args"] = [*args, *flags]
            return
        line = " ".join([*(shlex.quote(str(word)) for word in (*command, *args)), *flags])
        container["command"], container["args"] = ["sh", "-c"], [f"exec {line}"]
        return
    for index, text in enumerate(args):
        changed = _in_line(str(text), framework, " ".join(flags))
        if changed != text:
            container["args"] = [*args[:index], changed, *args[index + 1 :]]
            return


def _in_line(line: str, framework: str, flags: str) -> str:
    """Insert after the last word with the framework's name in each part of the line that runs it."""
    pieces = _SEGMENT_END.split(line)
    return "".join(piece if index % 2 else _in_segment(piece, framework, flags) for index, piece in enumerate(pieces))


def _in_segment(segment: str, framework: str, flags: str) -> str:
    if "python" not in segment or framework not in segment:
        return segment
    last = None
    for word in re.finditer(r"\S+", segment):
        if framework in word.group():
            last = word
    assert last is not None
    return f"{segment[: last.end()]} {flags}{segment[last.end() :]}"
