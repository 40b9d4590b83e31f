"""What the Dynamo part was told when it started."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DynamoSettings:
    """`kai`: whether a scheduler with queues is there; `environment`: what every component is given beside its own."""

    grove: bool = True
    kai: bool = True
    default_queue: str = "default-queue"
    discovery: str = "kubernetes"
    termination_delay: str = "15m"
    ssh_secret: str = "mpi-run-ssh-secret"
    environment: dict[str, str] = field(default_factory=dict)
