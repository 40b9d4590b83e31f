"""`spinney place`: placement problems from a file or a stream, and the engine's answers.

Never prints part of a result: an input that cannot be read gives one line on standard error and exit status 2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import click
import msgspec

from spinney.cli.options import elapsed

if TYPE_CHECKING:
    from spinney.api.placement.result import Result

_FAILED = 1
_UNREADABLE = 2
_INTERRUPTED = 130


@click.command(
    epilog="""\b
Examples:
  spinney place examples/place/problem.yaml
  spinney place examples/place/problem.yaml -o table
  generate-problems | spinney place --jsonl      # one problem per line in, one result per line out

\b
Exit status: 0 when every problem got an answer, `infeasible` and `invalid` included;
2 when the input cannot be read, with the line and the field on standard error.
""",
)
@click.argument("problem", metavar="FILE|-", required=False)
@click.option("--jsonl", is_flag=True, help="Read one JSON problem per line, write one result per line, flush each.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml", "table"]), default="json", show_default=True)
def place(problem: str | None, jsonl: bool, output: str) -> None:
    """Place the gangs of a problem on its nodes and print where every pod goes, or why it cannot.

    The problem is YAML or JSON, from FILE or from standard input (-). Nothing but the problem counts: no cluster is
    asked, and the same problem always gets the same answer.
    """
    if jsonl and output != "json":
        raise click.UsageError("--jsonl writes JSON lines; leave out -o")
    if problem is None and not jsonl:
        raise click.UsageError("Missing argument 'FILE|-'.")
    with _quietly():
        if jsonl:
            _each_line(problem or "-")
        else:
            _whole(str(problem), output)


def _whole(name: str, output: str) -> None:
    from spinney.api.placement.reading import Unreadable, decode_text, line_of

    body = _content(name)
    try:
        result = _answered(decode_text(body))
    except Unreadable as error:
        line = error.line or (line_of(body, error.path) if error.path else None)
        _stop(f"{_shown(name)}:{line}: {error}" if line else f"{_shown(name)}: {error}")
    _write(_rendered(result, output))


def _each_line(name: str) -> None:
    from spinney.api.placement.reading import Unreadable, decode_json

    for number, line in enumerate(_lines(name), start=1):
        if not line.strip():
            continue
        try:
            result = _answered(decode_json(line))
        except Unreadable as error:
            _stop(f"line {number}: {error}")
        _write(_json(result) + b"\n")


def _answered(document: Any) -> Result:
    from spinney.api.placement.reading import read_problem
    from spinney.core.placement.engine import place as decide

    with elapsed("placing"):
        return decide(read_problem(document))


def _content(name: str) -> bytes:
    from spinney.api.documents import DocumentError, read_bounded
    from spinney.api.placement.reading import PROBLEM

    with _opened(name) as stream:
        try:
            return read_bounded(stream, _shown(name), PROBLEM)
        except DocumentError as error:
            _stop(f"{_shown(name)}:{error.line}: {error.problem}" if error.line else str(error))


def _lines(name: str) -> Iterator[bytes]:
    from spinney.api.placement.reading import PROBLEM

    with _opened(name) as stream:
        while line := stream.readline(PROBLEM.bytes + 1):
            yield line


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """For reading only: whatever fails inside is the input's fault. Standard input stays open, it is not ours."""
    try:
        if name != "-":
            with open(name, "rb") as stream:
                yield stream
        elif sys.stdin is None:
            _stop("standard input: cannot be read: it is closed")
        else:
            yield sys.stdin.buffer
    except OSError as error:
        _stop(f"{_shown(name)}: cannot be read: {error.strerror}")
    except ValueError:  # a name with a zero byte in it
        _stop(f"{_shown(name)}: cannot be read: no such file")


def _rendered(result: Result, output: str) -> bytes:
    if output == "table":
        from spinney.cli.render.plan import placement_table

        return placement_table(result).encode()
    if output == "json":
        return msgspec.json.format(_json(result), indent=2) + b"\n"
    import yaml

    from spinney.api.placement.writing import write_result

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(write_result(result), Dumper=dumper, sort_keys=False, allow_unicode=True, width=120)
    return text.encode()


def _json(result: Result) -> bytes:
    from spinney.api.placement.writing import write_result

    return msgspec.json.encode(write_result(result))


def _write(content: bytes) -> None:
    if sys.stdout is None:
        _stop("standard output: cannot be written: it is closed", _FAILED)
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        _stop(f"standard output: cannot be written: {error.strerror}", _FAILED)


def _shown(name: str) -> str:
    if name == "-":
        return "standard input"
    return name if name.isprintable() else repr(name)


def _stop(why: str, status: int = _UNREADABLE) -> NoReturn:
    click.echo(why, err=True)
    raise SystemExit(status)


@contextmanager
def _quietly() -> Iterator[None]:
    """Whoever stops reading, or presses Ctrl-C, knows that they did."""
    try:
        yield
    except BrokenPipeError:
        _drop_output()
        raise SystemExit(_FAILED) from None
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None


def _drop_output() -> None:
    """What is still buffered has nowhere to go, and the interpreter would complain about it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
