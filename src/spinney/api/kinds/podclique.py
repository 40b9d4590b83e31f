"""PodClique: pods of one role, scaled and started together."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from spinney.api.meta import (
    MOST_PODS,
    Conditions,
    Count,
    Generation,
    Hash,
    Kind,
    LabelKey,
    Message,
    Name,
    NameList,
    Opaque,
    OpaqueList,
    SelectorText,
    Slim,
    Timestamp,
    doc,
    listed,
    number,
)


class AutoScaling(Slim, frozen=True, kw_only=True):
    """How far an autoscaler may go, and by what it decides."""

    min_replicas: Annotated[
        int | None, number("Fewest replicas; the initial number if not set.", least=1, most=MOST_PODS)
    ] = None
    max_replicas: Annotated[int, number("Most replicas.", least=1, most=MOST_PODS)]
    metrics: Annotated[
        OpaqueList, doc("Metrics of a HorizontalPodAutoscaler (autoscaling/v2), passed on as they are.")
    ] = ()


def _free(**schema: Any) -> dict[str, Any]:
    """An object of which only what is said is judged."""
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **schema}


def _text(least: int = 0, most: int = 262144) -> dict[str, Any]:
    return {"type": "string", "maxLength": most, **({"minLength": least} if least else {})}


def _many(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": 4096}


def _container() -> dict[str, Any]:
    known = {"name": _text(1, 63), "image": _text(), "resources": _free()}
    return _free(properties=known, required=["name"])


_POD_SPEC: dict[str, Any] = {
    "containers": _many(_container()),
    "initContainers": _many(_container()),
    "nodeSelector": {"type": "object", "additionalProperties": _text(), "maxProperties": 4096},
    "terminationGracePeriodSeconds": {"type": "integer", "format": "int64"},
    **{key: _many(_free()) for key in ("tolerations", "volumes")},
    **{key: _text() for key in ("restartPolicy", "schedulerName", "priorityClassName", "serviceAccountName")},
}
"""What has no meaning is refused by the API server itself, while no webhook judges it. What is not named passes, and
is judged by the webhook, which tells all that is wrong at once.
"""


class PodCliqueSpec(Slim, frozen=True, kw_only=True):
    role_name: Annotated[Name, doc("What the pods of this clique do; unique in the set.")] = ""
    pod_spec: Annotated[
        Opaque, doc("The specification of the pods, as in a Pod.", properties=_POD_SPEC, required=["containers"])
    ]
    replicas: Annotated[int, number("How many pods are wanted.", least=0, most=MOST_PODS)] = 0
    min_available: Annotated[
        int | None, number("How many pods make the clique useful; all of them if not set.", least=0, most=MOST_PODS)
    ] = None
    starts_after: Annotated[NameList, doc("Cliques that must be ready before these pods start.")] = ()
    auto_scaling_config: Annotated[AutoScaling | None, doc("Scales the clique on its own.")] = None


class LastError(Slim, frozen=True):
    """A failure of the last reconciliation."""

    code: Annotated[LabelKey, doc("What failed, for programs.")]
    description: Annotated[Message, doc("What failed, for people.")]
    observed_at: Annotated[Timestamp, doc("When it was seen.")]


LastErrors = Annotated[tuple[LastError, ...], listed(None, most=64)]


class PodsSelectedToUpdate(Slim, frozen=True):
    current: Annotated[Name, doc("The pod that is being replaced.")]
    completed: Annotated[tuple[Name, ...], listed("The pods that have been replaced.", most=16384)] = ()


class PodCliqueUpdateProgress(Slim, frozen=True, kw_only=True):
    update_started_at: Annotated[Timestamp, doc("When the update began.")]
    update_ended_at: Annotated[Timestamp | None, doc("When the last pod was replaced.")] = None
    pod_clique_set_generation_hash: Annotated[Hash, doc("The revision of the set that is rolled out.")]
    pod_template_hash: Annotated[Hash, doc("The revision of the pod template that is rolled out.")]
    ready_pods_selected_to_update: Annotated[
        PodsSelectedToUpdate | None, doc("Ready pods that were chosen for replacement.")
    ] = None


class PodCliqueStatus(Slim, frozen=True):
    observed_generation: Annotated[Generation | None, doc("The generation that was reconciled last.")] = None
    last_errors: Annotated[LastErrors, doc("Failures of the last reconciliation.")] = ()
    replicas: Annotated[Count, doc("Pods that exist and are not being deleted.")] = 0
    ready_replicas: Annotated[int, number("Pods that are ready.", least=0, default=0)] = 0
    updated_replicas: Annotated[int, number("Pods of the current revision.", least=0, default=0)] = 0
    schedule_gated_replicas: Annotated[int, number("Pods that are held by a gate.", least=0, default=0)] = 0
    scheduled_replicas: Annotated[int, number("Pods that have a node.", least=0, default=0)] = 0
    hpa_pod_selector: Annotated[SelectorText, doc("Selects the pods, for an autoscaler.")] = ""
    conditions: Annotated[Conditions, doc("Observations.")] = ()
    current_pod_clique_set_generation_hash: Annotated[Hash, doc("The revision of the set in force.")] = ""
    current_pod_template_hash: Annotated[Hash, doc("The revision of the pod template in force.")] = ""
    update_progress: Annotated[PodCliqueUpdateProgress | None, doc("How far the update is.")] = None


class PodClique(Kind, frozen=True):
    """Pods of one role; made by the operator for each clique of a set replica or scaling-group replica."""

    GROUP: ClassVar = "grove.io"
    VERSION: ClassVar = "v1alpha1"
    KIND: ClassVar = "PodClique"
    PLURAL: ClassVar = "podcliques"

    spec: Annotated[PodCliqueSpec, doc("What is wanted.")]
    status: Annotated[PodCliqueStatus, doc("What is.")] = PodCliqueStatus()
