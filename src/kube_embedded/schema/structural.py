"""Compiles the schema of a custom resource into the form that all walks over its objects use.

The schema must have passed the checks of its definition; nothing is refused here.
"""

from __future__ import annotations

from kube_embedded.schema.model import ANYTHING, Compiler, Raw, Schema, Shape
from kube_embedded.schema.objectmeta import TYPE_AND_META
from kube_embedded.schema.shape_gates import knows_all


def compile_structural(raw: Raw) -> Schema:
    """The compiled schema of a custom object, completed by apiVersion, kind and metadata."""
    schema = complete(Compiler().compile(raw))
    schema.properties = {**schema.properties, **TYPE_AND_META}
    schema.shape = Shape.OBJECT
    schema.knows_all = knows_all(schema)
    return schema


def complete(schema: Schema) -> Schema:
    """Embedded objects have the metadata of any object; `additionalProperties: true` keeps scalars only."""
    if schema.additional is ANYTHING:
        schema.additional = Schema(shape=Shape.OBJECT)
    for child in (*schema.properties.values(), schema.additional, schema.items):
        if child is not None:
            complete(child)
    if schema.embedded:
        schema.properties = {**schema.properties, **TYPE_AND_META}
        schema.shape = Shape.OBJECT
    return schema
