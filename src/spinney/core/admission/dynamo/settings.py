"""What the rules for deployments go by beside the objects."""

from __future__ import annotations

from dataclasses import dataclass

from spinney.api.generated_names import DEFAULT_TOPOLOGY


@dataclass(frozen=True, slots=True)
class DynamoAdmissionSettings:
    """`grove`: whether sets can be generated at all; `operator_users` may change replicas that an adapter owns."""

    grove: bool = True
    default_topology: str = DEFAULT_TOPOLOGY
    origin_version: str = "1.0.0"
    operator_users: frozenset[str] = frozenset()
