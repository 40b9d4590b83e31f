"""Reads the queues of a cluster."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from spinney.api.kinds.queue import Queue
from spinney.core.view.queue_list import QueueRow, queue_rows, with_those_below
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.errors import ConfigError, NotFound
from spinney.drive.scheduler.caches import QUEUES


async def read_queues(client: ApiClient, names: Sequence[str] = ()) -> list[QueueRow]:
    """All queues; `names`: only these and those below them. Raises ClientError if they cannot be read."""
    try:
        rows = queue_rows((await client.list(Selection(QUEUES), Queue)).items)
    except NotFound:
        served = f"{Queue.PLURAL}.{Queue.GROUP}"
        raise ConfigError(f"the cluster does not serve {served}: apply `spinney manifests crds` first") from None
    known = [row.name for row in rows]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise ConfigError(f"Queue {name} does not exist" + (f": did you mean {near[0]}?" if near else ""))
    return with_those_below(rows, names) if names else rows
