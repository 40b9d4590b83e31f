"""Several sets of rules as one plug-in: each request is judged by the first that handles it."""

from __future__ import annotations

from collections.abc import Sequence

from kube_apimachinery.admission import AdmissionPlugin, AdmissionRequest, Lookup, Verdict


class AdmissionUnion:
    """Rules of different kinds of objects, side by side."""

    def __init__(self, plugins: Sequence[AdmissionPlugin]) -> None:
        self._plugins = tuple(plugins)

    def handles(self, request: AdmissionRequest) -> bool:
        return self._of(request) is not None

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        chosen = self._of(request)
        return chosen.mutate(request, lookup) if chosen is not None else Verdict()

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        chosen = self._of(request)
        return chosen.validate(request, lookup) if chosen is not None else Verdict()

    def _of(self, request: AdmissionRequest) -> AdmissionPlugin | None:
        return next((one for one in self._plugins if one.handles(request)), None)
