"""What the controllers and doors of this process have done, counted for `/metrics`.

One table for the process, as in controller-runtime, whose names are kept. Labels are names of controllers,
field managers, resources and outcomes: bounded, and never the name of an object.
"""

from __future__ import annotations

from collections import defaultdict


class Table:
    """One metric: a value for each combination of labels."""

    def __init__(self, name: str, kind: str, text: str, *labels: str) -> None:
        self.values: defaultdict[tuple[str, ...], float] = defaultdict(float)
        self._name, self._kind, self._text, self._labels = name, kind, text, labels

    def lines(self) -> list[str]:
        found = [f"# HELP {self._name} {self._text}", f"# TYPE {self._name} {self._kind}"]
        for values, amount in sorted(self.values.items()):
            shown = ",".join(f'{label}="{value}"' for label, value in zip(self._labels, values, strict=True))
            found.append(f"{self._name}{{{shown}}} {amount:.17g}")
        return found


RECONCILES = Table("controller_runtime_reconcile_total", "counter", "Reconciles", "controller", "result")
ERRORS = Table("controller_runtime_reconcile_errors_total", "counter", "Reconciles that failed", "controller")
_DEPTH = Table("workqueue_depth", "gauge", "Keys that are ready to be taken", "name")
_RETRIES = Table("workqueue_retries_total", "counter", "Keys queued again after a failure", "name")
_TAKEN = Table("spinney_workqueue_taken_total", "counter", "Keys taken", "name")
_WAITED = Table("spinney_workqueue_waited_seconds_total", "counter", "Time that keys waited to be taken", "name")
_WORKED = Table("spinney_workqueue_worked_seconds_total", "counter", "Time spent on keys", "name")
WRITES = Table(
    "spinney_writes_total", "counter", "Writes and what became of them", "manager", "resource", "verb", "outcome"
)
_ALL = (RECONCILES, ERRORS, _DEPTH, _RETRIES, _TAKEN, _WAITED, _WORKED, WRITES)


class ControllerMeter:
    """Receives what happens in the work queue of a controller."""

    def __init__(self, name: str) -> None:
        self._labels = (name,)
        self.waiting(0)

    def waiting(self, depth: int) -> None:
        _DEPTH.values[self._labels] = depth

    def taken(self, waited_s: float) -> None:
        _TAKEN.values[self._labels] += 1
        _WAITED.values[self._labels] += waited_s

    def finished(self, worked_s: float) -> None:
        _WORKED.values[self._labels] += worked_s

    def retried(self) -> None:
        _RETRIES.values[self._labels] += 1


def page() -> str:
    """In the text format of Prometheus."""
    return "".join(f"{line}\n" for table in _ALL for line in table.lines())
