"""The kinds that every Kubernetes has: their schemas, their rules, their rows.

Nothing here stores objects or speaks HTTP. The catalog of all of them is loaded by who asks for it: commands need one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kube_embedded.builtins.catalog import builtin_converters, builtin_resources
    from kube_embedded.builtins.snapshot import components_for

__all__ = ["builtin_converters", "builtin_resources", "components_for"]

_HOMES = {"builtin_converters": "catalog", "builtin_resources": "catalog", "components_for": "snapshot"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
