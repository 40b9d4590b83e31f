"""The watchdog of a cluster: it reads, checks the invariants, and reports what is broken by log, metric and event."""

from __future__ import annotations

import structlog

from kube_apimachinery.system_clock import SystemClock, system_dice
from spinney.api.meta import ObjectMeta
from spinney.cli.wiring.roles.registry import RoleConfig, WatchdogOptions
from spinney.core.scheduling.reporting.report import Event
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Written
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError
from spinney.drive.client.http.transport import Transport
from spinney.drive.scheduler.status_writer import StatusClient
from spinney.sim.invariants.cluster_watch import ClusterWatch, Violation

REASON = "InvariantViolated"
_NAME = "spinney-watchdog"
_EVENT_EVERY_S = 1.0
_CLUSTER_EVENTS = "default"  # the namespace of events about what is in no namespace

_log = structlog.get_logger(__name__)


def create(role_config: RoleConfig) -> WatchdogRole:
    return WatchdogRole(role_config.watchdog, role_config.connect())


class WatchdogRole:
    """Any number may run: nobody leads. With `events`, the only thing that it writes is an event a second at most."""

    def __init__(self, options: WatchdogOptions, transport: Transport) -> None:
        self._transport = transport
        self._clock = SystemClock()
        self._last_event_s = -_EVENT_EVERY_S
        dice = system_dice()
        door = Door(self._transport, dice, field_manager=_NAME)
        self._status_client = StatusClient(door, self._clock, _NAME) if options.events else None
        client = ApiClient(self._transport, dice)
        self._watch = ClusterWatch(client, self._clock, self._record_event, options.schedulers)

    def trouble(self) -> str:
        return self._watch.trouble

    def figures(self) -> dict[str, float]:
        return self._watch.figures()

    async def run(self) -> None:
        try:
            await self._watch.run()
        finally:
            await self._transport.close()

    async def _record_event(self, violation: Violation) -> None:
        now_s = self._clock.monotonic()
        if self._status_client is None or now_s - self._last_event_s < _EVENT_EVERY_S:
            return
        self._last_event_s = now_s
        namespace, name = violation.key
        about = ObjectMeta(name=name, namespace=namespace or _CLUSTER_EVENTS, uid=violation.uid)
        event = Event("Warning", REASON, violation.text)
        try:
            outcome = await self._status_client.event(violation.resource.api_version, violation.kind, about, event)
        except ClientError as error:
            _log.warning("an event could not be written", error=str(error))
        else:
            if not isinstance(outcome, Written):
                _log.warning("an event was not accepted", outcome=str(outcome))
