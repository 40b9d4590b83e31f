"""Who stands where: gangs read from their pods, and told to the engine.

Pods that have to go for others are nobody's members any more, though they hold their room until they are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.company import Surroundings, among
from spinney.core.scheduling.gangs import Context, GangReading, read_gang
from spinney.core.scheduling.queues import Charge
from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.book import Book, Entry
from spinney.drive.loop.scheduler.deciding import Decider
from spinney.drive.loop.scheduler.hunting import Stander
from spinney.drive.loop.scheduler.tenure import Tenure
from spinney.drive.loop.scheduler.views import Views, group_of


class Muster:
    """Over all views; `context` are the look-ups that a reading needs now."""

    def __init__(
        self,
        views: Views,
        cluster: Cluster,
        book: Book,
        decider: Decider,
        tenure: Tenure,
        context: Callable[[], Context],
    ) -> None:
        self._views = views
        self._cluster = cluster
        self._book = book
        self._decider = decider
        self._tenure = tenure
        self._context = context

    def read(self, entry: Entry, group: PodGroup, pods: Sequence[Pod], context: Context) -> None:
        """Where the members of a gang are now, for itself and for those tied to it."""
        before, reading = entry.reading, read_gang(group, self._members(pods), context)
        entry.reading = reading
        self._decider.stand(reading.gang)
        self._book.tie(entry, reading.gang.tied_to.gang if reading.gang.tied_to is not None else "")
        if before is None or before.gang.running != reading.gang.running:
            self._book.wake_tied(entry.name)
            self._book.wake_base(entry)
        if before is not None and reading.gang.running and _gives_way(before, reading):
            self._cluster.touch()

    def among(self, entry: Entry) -> GangReading:
        """A gang as it is to be decided beside the pods that have their places now."""
        assert entry.reading is not None
        there = self._cluster
        return among(
            entry.reading, Surroundings(there.neighbours, there.inventory, there.topologies, self._views.pods.get)
        )

    def again(self, key: Key) -> None:
        """Members of a gang have to go, or need not go any more."""
        entry, group = self._book.entries.get(key), self._views.podgroups.get(key)
        if entry is not None and entry.reading is not None and group is not None:
            self.read(entry, group, self._views.pods_of(key), self._context())
        self._book.touch(key)

    def stander(self, name: str) -> Stander | None:
        """A gang by its name, as far as it may be disturbed."""
        namespace, _, short = name.partition("/")
        entry = self._book.entries.get((namespace, short))
        if entry is None or entry.reading is None:
            return None
        return Stander(
            entry.reading,
            lambda: self._members(self._views.pods_of(entry.key)),
            entry.in_flight,
            lambda: self._tenure.spares(entry),
        )

    def is_giving_way(self, key: Key) -> bool:
        """Whether members have to go and are not on their way yet: who stays, and where, is known when they are.

        The plan that they have to go for may never be recorded, or be given up; then they hold the others (INV3).
        """
        if not self._cluster.has_doomed:
            return False
        return any(
            self._cluster.is_doomed(pod.metadata.uid) and pod.metadata.deletion_timestamp is None
            for pod in self._views.pods_of(key)
        )

    def charges(self, pods: Iterable[Pod]) -> list[Charge]:
        """What pods that hold room use of the queues of their gangs."""
        found = []
        for pod in pods:
            entry, held = self._book.entries.get(group_of(pod)), self._cluster.inventory.pod(pod.metadata.uid)
            if entry is not None and entry.reading is not None and held is not None:
                found.append(Charge(entry.reading.queue, held.request, entry.reading.gang.preemptible))
        return found

    def land(self, entry: Entry) -> None:
        """Nothing of a plan is left: from now on its members may be victims, and those refused meanwhile ask again.

        So do those tied to it: members that were given a node and have none are nobody's company any more.
        """
        if not entry.in_flight or entry.reading is None:
            return
        entry.in_flight = False
        self._book.wake_tied(entry.name)
        self._book.wake_base(entry)
        gang = entry.reading.gang
        if gang.preemptible and gang.running and self._book.is_wanted(entry.decided, gang.priority):
            self._cluster.touch()

    def _members(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        if not self._cluster.has_doomed:
            return pods
        return [pod for pod in pods if not self._cluster.is_doomed(pod.metadata.uid)]


def _gives_way(before: GangReading, now: GangReading) -> bool:
    """Whether a gang that was in somebody's way may not be any more, though it stands where it stood."""
    is_weaker = now.gang.priority < before.gang.priority
    return is_weaker or now.gang.preemptible > before.gang.preemptible or now.queue != before.queue
