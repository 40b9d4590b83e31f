"""Compiles and evaluates CEL expressions with the library and the functions that Kubernetes gives them.

The CEL engine is loaded when the first expression is compiled; nothing here reads a schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import count
from typing import Any

from kube_embedded.schema.cel import ast, library
from kube_embedded.schema.cel.ast import Node, Tree
from kube_embedded.schema.cel.reading import Reading, UndeclaredField, read
from kube_embedded.schema.cel.types import DYN, Type, Use

_EXTENSIONS = "name: kubernetes\nextensions:\n" + "".join(
    f"- name: {name}\n" for name in ("optional", "sets", "lists", "two-var-comprehensions", "strings\n  version: 2")
)
_NUMBERS = re.compile(
    r"found no matching overload for '_[<>]=?_' applied to '\((int|uint|double), (int|uint|double)\)'"
)


class CelError(ValueError):
    """An expression that cannot be compiled, or that failed on its values."""


class Program:
    """A compiled expression. `result` is the type of its value as the engine calls it, `uses` what it looks at."""

    def __init__(self, engine: Any, tree: Tree, result: str, uses: Mapping[str, Use]) -> None:
        self._engine = engine
        self.tree = tree
        self.result = result
        self.uses = uses

    def gives(self, kind: str) -> bool:
        """Whether the value may be of this type; what cannot be known counts as right."""
        return self.result in (kind, "DYN")

    def evaluate(self, bindings: Mapping[str, Any]) -> Any:
        """The value; raises `CelError`. Variables that are not bound count as absent."""
        try:
            value = self._engine.eval(data=bindings)
            if value.type().name() == "ERROR":
                raise CelError(failure_text(str(value.value())))
            return value.plain_value()
        except (RuntimeError, TypeError) as error:
            raise CelError(failure_text(str(error))) from None


@lru_cache(maxsize=4096)
def _compiled(expression: str, names: tuple[str, ...]) -> Program:
    return compile_typed(expression, dict.fromkeys(names, DYN))


def compile(expression: str, names: Sequence[str] = ("object", "oldObject", "request")) -> Program:
    """A program over variables of any type; raises `CelError` with the complaint of the compiler."""
    return _compiled(expression, tuple(names))


def compile_typed(expression: str, variables: Mapping[str, Type]) -> Program:
    """A program over variables of declared types; raises `CelError` also where a field does not exist."""
    env = _environment(tuple((name, _engine_type(kind)) for name, kind in variables.items()))
    # Unchecked first: the engine knows no fields, and would not say which one is not declared.
    tree = ast.read(_attempt(env, expression, parse_only=True).serialize())
    try:
        reading = read(tree.root, variables)
    except UndeclaredField as error:
        raise CelError(str(error)) from None
    try:
        engine = _attempt(env, expression)
    except CelError as error:
        if not _only_about_numbers(str(error)):
            raise
        engine = _attempt(env, expression, parse_only=True)
    result = engine.return_type().name()
    optional = {name for name, kind in variables.items() if kind.name == "optional_type"}
    root = _rewritten(tree, reading, optional)
    if root is not tree.root:
        engine = env.deserialize(ast.write(root))
    return Program(engine, tree, result, reading.uses)


_SCALARS = {"bool": "BOOL", "int": "INT", "string": "STRING", "double": "DOUBLE"}


def _engine_type(kind: Type) -> str:
    """Scalars are declared to the engine; it has no names for the fields of other values."""
    return _SCALARS.get(kind.name, "DYN")


@cache
def _environment(variables: tuple[tuple[str, str], ...]) -> Any:
    from cel_expr_python import cel

    config = cel.NewEnvConfigFromYaml(_EXTENSIONS)
    kinds = {name: getattr(cel.Type, kind) for name, kind in variables}
    return cel.NewEnv(config=config, variables=kinds, extensions=[library.extension(cel)])


def _attempt(env: Any, expression: str, parse_only: bool = False) -> Any:
    try:
        return env.compile(expression, disable_check=parse_only)
    except RuntimeError as error:
        raise CelError(_without_code(str(error))) from None


def _without_code(text: str) -> str:
    return re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", text)


def _only_about_numbers(complaints: str) -> bool:
    """Kubernetes lets numbers of different types be compared; the library's checker does not, its engine does."""
    return all(_NUMBERS.search(line) for line in complaints.splitlines() if line.startswith("ERROR:"))


def _rewritten(tree: Tree, reading: Reading, optional: set[str]) -> Node:
    """The tree with times read from their text, and with optionals made from lists of at most one value.

    Neither times inside of maps nor optionals can be handed to the engine or be returned to it.
    """
    fresh = count(tree.next_id())

    def rewrite(node: Node) -> Node:
        target = rewrite(node.target) if node.target is not None else None
        args = tuple(rewrite(arg) for arg in node.args)
        changed = target is not node.target or any(map(_is_not, args, node.args))
        result = replace(node, target=target, args=args) if changed else node
        if node.id in reading.times and node.kind != "has":
            return ast.call(next(fresh), reading.times[node.id], result)
        if node.kind == "call" and node.names[0] in ("_==_", "_!=_") and node.args[0].id in reading.sets:
            same = ast.call(next(fresh), "sets.equivalent", *args)
            return same if node.names[0] == "_==_" else ast.call(next(fresh), "!_", same)
        # The function here gives a list of complaints, in CEL it is an optional list: none where there are none.
        if node.kind == "call" and node.names[0] == "validate":
            return ast.call(next(fresh), "optional.ofNonZeroValue", result)
        if (node.kind == "ident" and node.names[0] in optional) or (node.kind == "call" and node.names[0] == "named"):
            zero = Node(next(fresh), "const", raw=b"\x18\x00")
            return ast.call(next(fresh), "_[?_]", result, zero)
        return result

    return rewrite(tree.root)


def _is_not(left: Node, right: Node) -> bool:
    return left is not right


_FAILURES = (
    (re.compile(r'Key not found in map : "?(.*?)"?$'), "no such key: {}"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), "index out of bounds: {}"),
    (re.compile(r"divide by zero()"), "division by zero{}"),
    (re.compile(r"modulus by zero()"), "modulus by zero{}"),
    (re.compile(r"integer overflow()"), "integer overflow{}"),
    (re.compile(r"cannot convert string to (\w+)"), "type conversion error from 'string' to '{}'"),
    (re.compile(r"No matching overloads found()"), "no such overload{}"),
    (re.compile(r'No value with name "(.*?)" found in Activation'), "no such attribute(s): {}"),
)


def failure_text(text: str) -> str:
    """The words of Kubernetes' engine for a failure."""
    text = _without_code(text)
    for pattern, words in _FAILURES:
        if found := pattern.search(text):
            return words.format(found[1])
    return text
