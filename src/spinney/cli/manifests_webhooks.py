"""What API servers need to find the webhook: its Service, its configurations, and a place for its authorities."""

from __future__ import annotations

from typing import Any

from spinney.api.operator_configuration import OperatorConfiguration
from spinney.api.roles import users_in
from spinney.core.admission.settings import settings_of
from spinney.serve.webhook.configurations import Address, webhook_configurations
from spinney.serve.webhook.policies import admission_policies

SERVICE = "spinney-webhook"
PART_OF = {"app.kubernetes.io/part-of": "spinney"}


def selector(role: str) -> dict[str, str]:
    """The labels of a role's pods."""
    return {"app.kubernetes.io/name": f"spinney-{role}", **PART_OF}


def address_in(namespace: str) -> Address:
    """Where API servers find the webhook that runs in a namespace."""
    return Address(service_namespace=namespace, service_name=SERVICE)


def policy_objects(namespace: str, configuration: OperatorConfiguration) -> list[dict[str, Any]]:
    """What API servers refuse by themselves, whether or not the webhook runs."""
    return admission_policies(settings_of(configuration, users_in(namespace)))


def webhook_objects(namespace: str, configuration: OperatorConfiguration) -> list[dict[str, Any]]:
    """The bundles of the configurations and the Secret are filled in by the webhook when it runs.

    Where certificates are somebody else's, so is the Secret with them.
    """
    settings = settings_of(configuration, users_in(namespace))
    told = configuration.server.webhooks
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": namespace, "labels": dict(PART_OF)},
        "spec": {"selector": selector("webhook"), "ports": [{"name": "https", "port": 443, "targetPort": told.port}]},
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": told.secret_name, "namespace": namespace, "labels": dict(PART_OF)},
        "type": "Opaque",
    }
    return [
        service,
        *([secret] if told.cert_provision_mode == "auto" else []),
        *webhook_configurations(address_in(namespace), [namespace], settings=settings),
    ]
