"""Field paths of the stored version in the words of the version that the user wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from spinney.api.field_errors import FieldError

_COMPONENT = re.compile(r"^spec\.components\[(\d+)\]")
_RENAMED = {"clusterTopologyName": "topologyProfile", "spec.components": "spec.services", "spec.env": "spec.envs"}


def in_alpha(error: FieldError, names: Sequence[str]) -> FieldError:
    """`names`: of the components in the order of the stored version."""
    found = _COMPONENT.match(error.path)
    path = error.path
    if found and int(found.group(1)) < len(names):
        path = f"spec.services[{names[int(found.group(1))]}]{path[found.end() :]}"
    head, dot, last = path.rpartition(".")
    return replace(error, path=_RENAMED.get(path, f"{head}{dot}{_RENAMED.get(last, last)}"))
