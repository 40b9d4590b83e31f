"""`spinney uninstall`: ends the roles of an installation in the order in which nothing is left that cannot go.

Kinds, rights and the namespace stay: they can then be deleted with whatever brought them, in any order. Never deletes
objects of users.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spinney.cli.options import chosen_context, kubeconfig_option

if TYPE_CHECKING:
    from spinney.drive.apply.door import Door
    from spinney.drive.client.api import ApiClient
    from spinney.drive.client.paths import ResourcePath

_PART_OF = "app.kubernetes.io/part-of=spinney"
_REGISTRATION = "admissionregistration.k8s.io"
_ASKED_FIRST = (
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicybindings",
    "validatingadmissionpolicies",
)
_POLL_S = 1.0
_PATIENCE_S = 120

Report = Callable[[str], None]


@click.command(
    epilog="""\b
Examples:
  spinney uninstall && helm uninstall spinney -n spinney-system
  spinney uninstall && spinney manifests all | kubectl delete --ignore-not-found -f -

Exit status: 0 done, 1 a failure: it can be run again.
"""
)
@click.option("-n", "--namespace", default="spinney-system", show_default=True, help="Where the roles run.")
@kubeconfig_option
def uninstall(namespace: str, kubeconfig: Path | None) -> None:
    """End the roles and release what they keep, so that everything can be deleted. Workloads keep running."""
    from spinney.drive.client.errors import ClientError

    try:
        asyncio.run(_uninstall(namespace, kubeconfig))
    except (ClientError, OSError) as error:
        click.echo(f"spinney uninstall: {error}", err=True)
        raise SystemExit(1) from None


async def _uninstall(namespace: str, kubeconfig: Path | None) -> None:
    from kube_apimachinery.system_clock import system_dice
    from spinney.drive.apply.door import Door
    from spinney.drive.client.config.kubeconfig import cluster_client

    async with cluster_client(kubeconfig, context=chosen_context()) as client:
        door = Door(client.transport, system_dice(), field_manager="spinney-uninstall")
        await end_roles(client, door, namespace, click.echo)
        await release_finalizers(client, door, click.echo)


async def end_roles(client: ApiClient, door: Door, namespace: str, report: Report) -> None:
    """First nobody is refused any more, then the roles end. Their pods are waited for: a role would put back what is
    released, and the webhook makes its configurations again as long as it runs.
    """
    from spinney.drive.client.errors import ClientError
    from spinney.drive.client.paths import ResourcePath

    await _end_admission(client, door, report)
    deployments = ResourcePath("apps", "v1", "deployments")
    for found in await _listed(client, deployments, namespace, _PART_OF):
        await _delete(door, deployments, found, report)
    pods = ResourcePath("", "v1", "pods")
    for _ in range(_PATIENCE_S):
        left = await _listed(client, pods, namespace, _PART_OF)
        if not left:
            await _end_admission(client, door, report)
            return
        await asyncio.sleep(_POLL_S)
    names = ", ".join(found["metadata"]["name"] for found in left)
    raise ClientError(f"pods of the roles in {namespace} are still there after {_PATIENCE_S} s: {names}")


async def _end_admission(client: ApiClient, door: Door, report: Report) -> None:
    from spinney.api.roles.catalog import WEBHOOK_CONFIGURATION
    from spinney.drive.client.paths import ResourcePath

    for plural in _ASKED_FIRST:
        path = ResourcePath(_REGISTRATION, "v1", plural, namespaced=False)
        for found in await _listed(client, path):
            labels = found["metadata"].get("labels") or {}
            is_policy = labels.get("app.kubernetes.io/part-of") == "spinney"
            if found["metadata"]["name"] == WEBHOOK_CONFIGURATION or is_policy:
                await _delete(door, path, found, report)


async def release_finalizers(client: ApiClient, door: Door, report: Report) -> None:
    """No object waits any more for roles that are gone. Those of another installation of the roles put theirs back."""
    from spinney.api.labels import (
        FINALIZER_CLUSTERTOPOLOGY,
        FINALIZER_COMPUTE_DOMAIN,
        FINALIZER_PODCLIQUE,
        FINALIZER_PODCLIQUESET,
        FINALIZER_SCALING_GROUP,
    )
    from spinney.core.expansion import objects as kinds
    from spinney.drive.apply.change_applier import path_of

    kept = {
        kinds.PODCLIQUESETS: FINALIZER_PODCLIQUESET,
        kinds.SCALING_GROUPS: FINALIZER_SCALING_GROUP,
        kinds.PODCLIQUES: FINALIZER_PODCLIQUE,
        kinds.COMPUTE_DOMAINS: FINALIZER_COMPUTE_DOMAIN,
        kinds.CLUSTERTOPOLOGIES: FINALIZER_CLUSTERTOPOLOGY,
    }
    for resource, finalizer in kept.items():
        for found in await _listed(client, path_of(resource)):
            if finalizer in (found["metadata"].get("finalizers") or ()):
                await _release(door, path_of(resource), found, finalizer, report)


async def _release(door: Door, path: ResourcePath, found: dict[str, Any], finalizer: str, report: Report) -> None:
    from spinney.drive.apply.outcome import Gone, written
    from spinney.drive.apply.write import Precondition

    metadata = found["metadata"]
    ref = path.ref(metadata["name"], metadata.get("namespace", ""))
    left = [each for each in metadata["finalizers"] if each != finalizer]
    given = Precondition(metadata["uid"], metadata["resourceVersion"])
    outcome = await door.merge_patch(ref, {"metadata": {"finalizers": left or None}}, given)
    if not isinstance(outcome, Gone):
        written(outcome)
    report(f"released {ref}")


async def _delete(door: Door, path: ResourcePath, found: dict[str, Any], report: Report) -> None:
    from spinney.drive.apply.outcome import Deleted, Gone, written
    from spinney.drive.apply.write import Precondition

    metadata = found["metadata"]
    ref = path.ref(metadata["name"], metadata.get("namespace", ""))
    outcome = await door.delete(ref, Precondition(uid=metadata["uid"]), propagation="Background")
    if not isinstance(outcome, (Deleted, Gone)):
        written(outcome)
    report(f"deleted {ref}")


async def _listed(client: ApiClient, path: ResourcePath, namespace: str = "", labels: str = "") -> list[dict[str, Any]]:
    """Nothing where the kind is not served."""
    from spinney.drive.client.api import Selection
    from spinney.drive.client.errors import NotFound

    try:
        return list((await client.list(Selection(path, namespace, labels))).items)
    except NotFound:
        return []
