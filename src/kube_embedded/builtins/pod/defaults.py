"""What a pod gets without asking for it: the defaults of its spec, its containers and its volumes.

Pod templates get all of it but the defaults that only a running pod has (requests from limits, service links).
"""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_READABLE = 0o644
_AZURE_DISK = {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"}
_RBD = {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}
_SCALE_IO = {"storageMode": "ThinProvisioned", "fsType": "xfs"}


def default_pod(obj: Object) -> None:
    """The defaults of a Pod itself."""
    spec = obj["spec"]
    host_network = spec.get("hostNetwork", False)
    for name in ("containers", "initContainers"):
        for container in spec.get(name) or ():
            _requests_from_limits(container)
            if host_network:
                _ports_of_the_host(container)
    if "resources" in spec:
        _pod_level_requests(spec)
    spec.setdefault("enableServiceLinks", True)
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1


def default_template(template: Object) -> None:
    """The defaults of a pod template inside another kind."""
    default_pod_spec(template["spec"])


def default_pod_spec(spec: Object) -> None:
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    _mirror_service_account(spec)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    for name in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(name) or ():
            _default_container(container)


def _mirror_service_account(spec: Object) -> None:
    """The old field `serviceAccount` always repeats `serviceAccountName`."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _default_container(container: Object) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        if "valueFrom" in variable:
            _default_source(variable["valueFrom"])
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    for hook in container.get("lifecycle", {}).values():
        if isinstance(hook, dict) and "httpGet" in hook:
            _default_http(hook["httpGet"])


def _pull_policy(image: str) -> str:
    name = image.partition("@")
    if name[1]:
        return "IfNotPresent"
    tag = name[0].rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_source(source: Object) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")
    if "fileKeyRef" in source:
        source["fileKeyRef"].setdefault("optional", False)


def _default_probe(probe: Object) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        _default_http(probe["httpGet"])
    if "grpc" in probe and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def _default_http(action: Object) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def _default_volume(volume: Object) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
        return
    for kind, source in volume.items():
        default = _VOLUMES.get(kind)
        if default is not None:
            default(source)


def _default_mode(source: Object) -> None:
    source.setdefault("defaultMode", _READABLE)


def _default_downward(source: Object) -> None:
    _default_mode(source)
    _default_field_items(source)


def _default_field_items(source: Object) -> None:
    for item in source.get("items", ()):
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")


def _default_projected(source: Object) -> None:
    _default_mode(source)
    for one in source.get("sources") or ():
        if "downwardAPI" in one:
            _default_field_items(one["downwardAPI"])
        if "serviceAccountToken" in one:
            one["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def _default_ephemeral(source: Object) -> None:
    if "volumeClaimTemplate" in source:
        source["volumeClaimTemplate"]["spec"].setdefault("volumeMode", "Filesystem")


def _default_image(source: Object) -> None:
    source.setdefault("pullPolicy", _pull_policy(source.get("reference", "")))


def _fill(defaults: dict[str, Any]) -> Any:
    def fill(source: Object) -> None:
        for key, value in defaults.items():
            source.setdefault(key, value)

    return fill


_VOLUMES = {
    "configMap": _default_mode,
    "secret": _default_mode,
    "downwardAPI": _default_downward,
    "projected": _default_projected,
    "hostPath": _fill({"type": ""}),
    "ephemeral": _default_ephemeral,
    "image": _default_image,
    "azureDisk": _fill(_AZURE_DISK),
    "rbd": _fill(_RBD),
    "scaleIO": _fill(_SCALE_IO),
    "iscsi": _fill({"iscsiInterface": "default"}),
}


def _requests_from_limits(container: Object) -> None:
    """Who sets a limit and no request asks for the whole limit."""
    resources = container.get("resources")
    if not resources or not resources.get("limits"):
        return
    requests = resources.setdefault("requests", {})
    for name, value in resources["limits"].items():
        requests.setdefault(name, value)


def _pod_level_requests(spec: Object) -> None:
    limits = spec["resources"].get("limits")
    if not limits:
        return
    requests = spec["resources"].setdefault("requests", {})
    for name, value in limits.items():
        requests.setdefault(name, value)


def _ports_of_the_host(container: Object) -> None:
    for port in container.get("ports", ()):
        if not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort", 0)
