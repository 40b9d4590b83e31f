"""Values in messages as Kubernetes' internal Go types print them: other names, in the order of the struct."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class GoInternal:
    """Wraps a value whose keys must be shown in the order given."""

    value: Any

    def __str__(self) -> str:
        return json.dumps(self.value, separators=(",", ":"), ensure_ascii=False)
