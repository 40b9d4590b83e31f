"""Errors about the stored version in the words of the version that the user wrote: paths, and values with fields."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from spinney.api.field_errors import FieldError

_COMPONENT = re.compile(r"^spec\.components\[(\d+)\]")
_MAIN = re.compile(r"^\.podTemplate\.spec\.containers(\[0\])?(?=\.|$)")
_NAME = {"clusterTopologyName": "topologyProfile"}
_RENAMED = {**_NAME, "spec.components": "spec.services", "spec.env": "spec.envs"}


def in_alpha(error: FieldError, names: Sequence[str]) -> FieldError:
    """`names`: of the components in the order of the stored version."""
    found = _COMPONENT.match(error.path)
    path = error.path
    if found and int(found.group(1)) < len(names):
        rest = _MAIN.sub(".extraPodSpec.mainContainer", path[found.end() :])
        for new, old in (("podTemplate.spec", "extraPodSpec"), ("podTemplate.metadata", "extraPodMetadata")):
            rest = f".{old}{rest.removeprefix(f'.{new}')}" if rest.startswith(f".{new}") else rest
        path = f"spec.services[{names[int(found.group(1))]}]{rest}"
    head, dot, last = path.rpartition(".")
    value = error.value
    if last == "topologyConstraint" and isinstance(value, dict):
        value = {_NAME.get(key, key): one for key, one in value.items()}
    return replace(error, path=_RENAMED.get(path, f"{head}{dot}{_RENAMED.get(last, last)}"), value=value)
