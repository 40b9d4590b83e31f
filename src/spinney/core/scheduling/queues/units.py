"""The three resources that queues account for, in integer units: GPUs and cpu in thousandths, memory in bytes.

No floats are used once a queue is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kube_apimachinery import quantity
from spinney.api.kinds.queue import Queue
from spinney.api.labels import GPU_RESOURCE
from spinney.api.placement.problem import Amounts

UNLIMITED = -1
_MEGABYTE = 10**6


class Shares(NamedTuple):
    """An amount of each of the three."""

    gpu_m: int = 0
    cpu_m: int = 0
    memory: int = 0

    def plus(self, other: Shares, times: int = 1) -> Shares:
        return Shares(
            self.gpu_m + times * other.gpu_m, self.cpu_m + times * other.cpu_m, self.memory + times * other.memory
        )

    def resources(self) -> dict[str, str | int]:
        """As shown in a status; unlimited amounts are omitted."""
        texts = {
            GPU_RESOURCE: quantity.format_milli(self.gpu_m),
            "cpu": quantity.format_milli(self.cpu_m),
            "memory": quantity.format_bytes(self.memory),
        }
        return {name: text for (name, text), amount in zip(texts.items(), self, strict=True) if amount != UNLIMITED}


NOTHING = Shares()
EVERYTHING = Shares(UNLIMITED, UNLIMITED, UNLIMITED)
NAMES = ("GPUs", "CPU cores", "memory")


class ShareUnits:
    """Converts amounts over one list of resources."""

    def __init__(self, resources: Sequence[str]) -> None:
        self._gpus = [index for index, name in enumerate(resources) if name.endswith("/gpu")]
        self._cpu = [index for index, name in enumerate(resources) if name == "cpu"]
        self._memory = [index for index, name in enumerate(resources) if name == "memory"]

    def shares_of(self, amounts: Amounts) -> Shares:
        """An empty tuple of amounts counts as nothing."""
        if not amounts:
            return NOTHING
        return Shares(
            1000 * sum([amounts[index] for index in self._gpus]),
            sum([amounts[index] for index in self._cpu]),
            sum([amounts[index] for index in self._memory]),
        )


def quotas(queue: Queue) -> Shares:
    """The deserved quota; a queue that states no resources at all is unlimited."""
    given = queue.spec.resources
    return EVERYTHING if given is None else _shares([one.quota for one in (given.gpu, given.cpu, given.memory)])


def limits(queue: Queue) -> Shares:
    given = queue.spec.resources
    return EVERYTHING if given is None else _shares([one.limit for one in (given.gpu, given.cpu, given.memory)])


def amount_text(kind: int, amount: int) -> str:
    """An amount of one of the three, for messages."""
    match kind:
        case 0:
            return f"{_decimal(amount)} GPUs"
        case 1:
            return f"{_decimal(amount)} cores"
        case _:
            return f"{_decimal(amount // _MEGABYTE)} GB"


def _shares(stated: Sequence[float]) -> Shares:
    units = (1000, 1, _MEGABYTE)
    return Shares(*[UNLIMITED if one < 0 else round(one * unit) for one, unit in zip(stated, units, strict=True)])


def _decimal(thousandths: int) -> str:
    whole, rest = divmod(thousandths, 1000)
    return f"{whole}.{rest:03}".rstrip("0").rstrip(".")
