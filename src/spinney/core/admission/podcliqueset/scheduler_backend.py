"""The scheduler of a set: one for all its pods, enabled, and able to honour what is required (G10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kube_apimachinery.field_errors import OMITTED, FieldError, invalid, not_supported
from spinney.api.domains import HOST, NUMA
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import KAI_QUEUE, SCHEDULER_KAI
from spinney.core.admission.decoding import text
from spinney.core.admission.findings import Findings
from spinney.core.admission.settings import AdmissionSettings
from spinney.core.topology_constraints import ConstraintSite, constrained

_ONE_SCHEDULER = "the schedulerName for all pods have to be the same"


def backend_of(podcliqueset: PodCliqueSet, settings: AdmissionSettings) -> str:
    """The scheduler that the pods name, else the default one."""
    named = (text(clique.spec.pod_spec.get("schedulerName")) for clique in podcliqueset.spec.template.cliques)
    return next(filter(None, named), settings.default_backend)


def scheduler_errors(podcliqueset: PodCliqueSet, settings: AdmissionSettings) -> Iterable[FieldError]:
    """One enabled scheduler for all, and one queue of it."""
    backend = backend_of(podcliqueset, settings)
    reported: set[str] = set()
    for index, clique in enumerate(podcliqueset.spec.template.cliques):
        path = f"spec.template.cliques[{index}].spec.podSpec.schedulerName"
        name = text(clique.spec.pod_spec.get("schedulerName")) or settings.default_backend
        if name not in settings.backends and name not in reported:
            reported.add(name)
            yield not_supported(path, name, sorted(settings.backends))
        if name != backend:
            yield invalid(path, name, _ONE_SCHEDULER)
    if backend == SCHEDULER_KAI:
        yield from _queue_errors(podcliqueset, is_required=settings.requires_queue)


def check_capabilities(podcliqueset: PodCliqueSet, settings: AdmissionSettings, found: Findings) -> None:
    """A required constraint that the scheduler cannot honour is refused; a preferred one is only warned of."""
    backend = backend_of(podcliqueset, settings)
    capabilities = settings.backends.get(backend)
    if capabilities is None:
        return
    for site in constrained(podcliqueset):
        if site.required and not capabilities.required_topology:
            on = f'{site.kind} "{site.name}"' if site.name else site.kind
            text_ = f"{backend} scheduler backend does not support topologyConstraint on {on}"
            found.refuse(invalid(site.required_path, site.required, text_))
        elif NUMA in (site.required, site.preferred) and not capabilities.numa:
            _check_numa(site, backend, found)
        elif site.preferred and not capabilities.preferred_topology:
            found.warn(f"{site.preferred_path} is ignored: {backend} scheduler backend does not support it")


def _check_numa(site: ConstraintSite, backend: str, found: Findings) -> None:
    text_ = f"{backend} scheduler backend cannot honour domain '{NUMA}'; it sees nothing below '{HOST}'"
    if site.required == NUMA:
        found.refuse(invalid(site.required_path, NUMA, text_))
    else:
        found.warn(f"{site.preferred_path} is ignored: {text_}")


def _queue_errors(podcliqueset: PodCliqueSet, *, is_required: bool) -> Iterable[FieldError]:
    """The queue of the set, else the one that its cliques name; the default one if neither does."""
    metadata = podcliqueset.metadata
    title = f"PodCliqueSet {metadata.namespace}/{metadata.name}"
    whole = _queue(metadata.labels, metadata.annotations)
    of_cliques = {one.name: _queue(one.labels, one.annotations) for one in podcliqueset.spec.template.cliques}
    named = {clique: queue for clique, queue in of_cliques.items() if queue}
    if whole:
        for clique, queue in named.items():
            if queue != whole:
                text_ = f'KAI queue on {title} is "{whole}" but PodClique template "{clique}" resolves to "{queue}"'
                yield invalid("spec", OMITTED, text_)
    elif len(set(named.values())) > 1:
        shown = " ".join(sorted(set(named.values())))
        yield invalid("spec", OMITTED, f"conflicting KAI queues on {title} PodClique templates: [{shown}]")
    elif is_required and not named:
        yield invalid("spec", OMITTED, f"no KAI queue is configured on {title} or its PodClique templates")


def _queue(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    return labels.get(KAI_QUEUE) or annotations.get(KAI_QUEUE) or ""
