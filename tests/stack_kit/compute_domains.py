"""The kind of compute domains, as the driver that brings it defines it, in short."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "computedomains.resource.nvidia.com"},
    "spec": {
        "group": "resource.nvidia.com",
        "scope": "Namespaced",
        "names": {"plural": "computedomains", "singular": "computedomain", "kind": "ComputeDomain"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["numNodes", "channel"],
                                "x-kubernetes-validations": [
                                    {"rule": "self == oldSelf", "message": "A computeDomain.spec is immutable"}
                                ],
                                "properties": {
                                    "numNodes": {"type": "integer"},
                                    "channel": {
                                        "type": "object",
                                        "required": ["resourceClaimTemplate"],
                                        "properties": {
                                            "resourceClaimTemplate": {
                                                "type": "object",
                                                "required": ["name"],
                                                "properties": {"name": {"type": "string"}},
                                            }
                                        },
                                    },
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def gpu_pod(amount: str = "8", **more: Any) -> Json:
    """A pod specification with a GPU container beside one that has none."""
    main = {"name": "main", "image": "serve", "resources": {"limits": {"nvidia.com/gpu": amount}}}
    return {"containers": [main, {"name": "side", "image": "log"}], **more}


def in_group(name: str) -> Json:
    return {"annotations": {"grove.io/mnnvl-group": name}}
