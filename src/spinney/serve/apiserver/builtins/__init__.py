"""The kinds that every Kubernetes has: their schemas, their rules, their rows.

Nothing here stores objects or speaks HTTP.
"""

from spinney.serve.apiserver.builtins.catalog import builtin_converters, builtin_resources
from spinney.serve.apiserver.builtins.snapshot import components_for

__all__ = ["builtin_converters", "builtin_resources", "components_for"]
