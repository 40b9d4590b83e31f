"""Settings of the Dynamo controller, read at start-up."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DynamoSettings:
    """`kai`, `volcano`: which scheduler takes the pods; `environment`: what components are given beside their own."""

    kai: bool = True
    volcano: bool = False
    default_queue: str = "default-queue"
    discovery: str = "kubernetes"
    termination_delay: str = "15m"
    ssh_secret: str = "mpi-run-ssh-secret"
    environment: dict[str, str] = field(default_factory=dict)
