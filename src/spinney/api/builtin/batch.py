"""Jobs, as the pod-grouper reads them: how many pods make the gang."""

from __future__ import annotations

from spinney.api.builtin.selection import LabelSelector
from spinney.api.markers import Slim
from spinney.api.meta import ObjectMeta


class JobSpec(Slim, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool = False
    backoff_limit: int | None = None
    selector: LabelSelector | None = None


class JobCondition(Slim, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class JobStatus(Slim, frozen=True):
    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[JobCondition, ...] = ()


class Job(Slim, frozen=True):
    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
