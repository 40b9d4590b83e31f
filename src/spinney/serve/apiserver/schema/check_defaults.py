"""Are the defaults of a structural schema values that it would accept, and nothing more than it knows?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spinney.api.field_errors import FieldError, invalid
from spinney.serve.apiserver.schema.cel import CelError
from spinney.serve.apiserver.schema.cel_rules import Rules
from spinney.serve.apiserver.schema.correlate import same
from spinney.serve.apiserver.schema.default import copied
from spinney.serve.apiserver.schema.explain import explain
from spinney.serve.apiserver.schema.model import Compiler, Raw
from spinney.serve.apiserver.schema.objectmeta import validate_embedded
from spinney.serve.apiserver.schema.prune import prune
from spinney.serve.apiserver.schema.structural import complete


def default_errors(raw: Raw, path: str) -> Iterator[FieldError]:
    """Every default that does not fit; values of maps have none."""
    if raw.get("default") is not None:
        yield from _errors(raw, raw["default"], f"{path}.default")
    if isinstance(raw.get("items"), dict):
        yield from default_errors(raw["items"], f"{path}.items")
    for name, child in raw.get("properties", {}).items():
        yield from default_errors(child, f"{path}.properties[{name}]")


def _errors(raw: Raw, value: Any, path: str) -> Iterator[FieldError]:
    schema = complete(Compiler().compile(raw))
    pruned = copied(value)
    prune(pruned, schema)
    if not same(pruned, value):
        yield invalid(path, value, "must not have unknown fields")
    errors = validate_embedded(value, schema, path) or explain(value, raw, root=path)
    if errors:
        yield from errors
        return
    try:
        rules = Rules.of(raw, schema, root=False)
    except CelError:
        return  # said where the rules are checked
    if rules is not None:
        yield from rules.validate(value, value, path=path) or rules.validate(value, None, path=path)
