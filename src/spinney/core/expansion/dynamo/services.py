"""What pods of a deployment need beside them: services, the account with which they find each other, a script."""

from __future__ import annotations

from spinney.api import labels as known
from spinney.api.changes import Json, Target
from spinney.core.expansion.dynamo import generated_labels, names
from spinney.core.expansion.dynamo.containers import FRONTEND_PORT, SYSTEM_PORT
from spinney.core.expansion.dynamo.pods import service_account
from spinney.core.expansion.dynamo.roles import is_worker, node_count
from spinney.core.expansion.dynamo.settings import DynamoSettings
from spinney.core.expansion.resource_kinds import CONFIGMAPS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, SERVICES

_WAIT = """\
import os, socket, time

address = os.environ["LEADER_HOST"], int(os.environ["LEADER_PORT"])
while True:
    try:
        socket.create_connection(address, timeout=5).close()
        break
    except OSError as error:
        print(f"waiting for {address[0]}:{address[1]}: {error}", flush=True)
        time.sleep(2)
"""
_READS = [
    {"apiGroups": [""], "resources": ["endpoints", "pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]},
]


def services_of(deployment: Json, settings: DynamoSettings) -> dict[Target, Json]:
    """Each object without its owner, by its place."""
    metadata = deployment["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    discovers = generated_labels.discovery_of(deployment, settings) == "kubernetes"
    found: dict[Target, Json] = {}
    if discovers:
        account = service_account(name)
        found[SERVICE_ACCOUNTS.at(account, namespace)] = {}
        found[ROLES.at(account, namespace)] = {"rules": _READS}
        found[ROLE_BINDINGS.at(account, namespace)] = {
            "roleRef": {"apiGroup": ROLES.group, "kind": "Role", "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }
    for component in deployment["spec"].get("components", ()):
        if component.get("type") == "frontend" or discovers:
            service = names.service(name, component["name"])
            found[SERVICES.at(service, namespace)] = {"spec": _service(deployment, component)}
    if any(is_worker(one) and node_count(one) > 1 for one in deployment["spec"].get("components", ())):
        script = f"{name}-wait-leader-script"
        found[CONFIGMAPS.at(script, namespace)] = {"data": {"wait_for_leader.py": _WAIT}}
    return found


def _service(deployment: Json, component: Json) -> Json:
    port = ("http", FRONTEND_PORT) if component.get("type") == "frontend" else ("system", SYSTEM_PORT)
    return {
        "selector": {known.DYNAMO_SELECTOR: names.component_names(deployment["metadata"]["name"], component["name"])},
        "ports": [{"name": port[0], "port": port[1], "targetPort": port[0], "protocol": "TCP"}],
    }
