"""Kinds that are asked and never kept (reviews, bindings), and CustomResourceDefinitions.

The rules of CustomResourceDefinitions live elsewhere; here they are only shaped and shown.
"""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.metadata import Naming
from kube_embedded.builtins.common.printing import NAME
from kube_embedded.builtins.common.rules import Rules, spec_changed

_ANY_NAME = Naming(lambda name: (), lambda prefix: ())


def _created_row(obj: Object, context: Context) -> list[Any]:
    return [obj["metadata"].get("name", ""), obj["metadata"].get("creationTimestamp")]


_COLUMNS = (NAME, Column("Created At", type="date"))


def asked(component: str, namespaced: bool = False) -> Rules:
    """A kind that is only ever posted."""
    return Rules(component=component, columns=_COLUMNS, cells=_created_row, naming=_ANY_NAME, namespaced=namespaced)


DEFINITIONS = Rules(
    component="io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    columns=_COLUMNS,
    cells=_created_row,
    namespaced=False,
    bumps=spec_changed,
    has_status=True,
)
