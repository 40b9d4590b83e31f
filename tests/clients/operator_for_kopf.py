"""An operator as others write them; run by kopf in a process of its own."""

from __future__ import annotations

import os
from typing import Any

import kopf

GROUP = os.environ["WIDGET_GROUP"]


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = True


@kopf.on.create(GROUP, "v1", "widgets")
def created(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    patch.status["phase"] = f"created with {spec.get('size')}"


@kopf.on.update(GROUP, "v1", "widgets", field="spec.size")
def resized(old: Any, new: Any, patch: kopf.Patch, body: kopf.Body, **_: Any) -> None:
    patch.status["phase"] = f"resized from {old} to {new}"
    kopf.info(body, reason="Resized", message=f"from {old} to {new}")


@kopf.on.delete(GROUP, "v1", "widgets")
def deleted(**_: Any) -> None:
    """Its presence makes kopf hold objects by a finalizer."""
