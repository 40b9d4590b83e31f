"""`spinney manifests`: what a cluster needs before the roles can run, for `kubectl apply -f -`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Objects = list[dict[str, Any]]
F = TypeVar("F", bound=Callable[..., Any])


@click.group(
    epilog="""\b
Examples:
  spinney manifests all --config operator.yaml | kubectl apply --server-side -f -
  spinney manifests crds | kubectl apply --server-side -f -
""",
)
def manifests() -> None:
    """Print the manifests that a cluster needs."""


_output = click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
_namespace = click.option(
    "-n", "--namespace", default="spinney-system", show_default=True, help="Where the roles run.", metavar="NAME"
)


def _configured(command: F) -> F:
    return click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="OperatorConfiguration for the roles. Default: topology aware scheduling with hosts as the only level, "
        "and gangs for our scheduler (profile kai-scheduler).",
    )(command)


def _imaged(command: F) -> F:
    return click.option("--image", metavar="NAME", help="Image of the roles. Default: spinney with this version.")(
        command
    )


@manifests.command()
@_namespace
@click.option(
    "--without-webhook",
    is_flag=True,
    help="For a cluster in which no webhook converts versions: only the stored version of each kind is served.",
)
@_output
def crds(namespace: str, without_webhook: bool, output: str) -> None:
    """Print the custom resource definitions, as `spinney manifests all` has them."""
    from spinney.api.crds import all_crds

    _print(all_crds() if without_webhook else _kinds(namespace), output)


@manifests.command()
@_namespace
@_configured
@_output
def rbac(namespace: str, config: Path | None, output: str) -> None:
    """Print a service account with its rights for each role."""
    _print([_space(namespace), *_rights(namespace, config)], output)


@manifests.command()
@_namespace
@_configured
@_output
def webhooks(namespace: str, config: Path | None, output: str) -> None:
    """Print the Service and the configurations of the webhook, and the definition whose versions it converts."""
    converted = [one for one in _kinds(namespace) if "conversion" in one["spec"]]
    _print([*converted, _space(namespace), *_webhooks(namespace, config)], output)


@manifests.command()
@_namespace
@_configured
@_output
def policies(namespace: str, config: Path | None, output: str) -> None:
    """Print the ValidatingAdmissionPolicies that keep what only the roles write. Kubernetes 1.30 or newer."""
    _print(_policies(namespace, config), output)


@manifests.command()
@_namespace
@_configured
@_imaged
@_output
def deployments(namespace: str, config: Path | None, image: str | None, output: str) -> None:
    """Print the configuration and a Deployment for each role."""
    _print([_space(namespace), *_deployments(namespace, config, image)], output)


@manifests.command("all")
@_namespace
@_configured
@_imaged
@_output
def everything(namespace: str, config: Path | None, image: str | None, output: str) -> None:
    """Print all of them, in an order in which they can be applied."""
    parts = parts_of(namespace, config, image)
    kinds, classes = parts.pop("kinds"), parts.pop("priority-classes")
    _print([*kinds, *classes, _space(namespace), *(obj for part in parts.values() for obj in part)], output)


def parts_of(namespace: str, config: Path | None, image: str | None) -> dict[str, Objects]:
    """Everything but the namespace, in an order in which it can be applied."""
    return {
        "kinds": _kinds(namespace),
        "priority-classes": _classes(),
        "rbac": _rights(namespace, config),
        "policies": _policies(namespace, config),
        "webhooks": _webhooks(namespace, config),
        "roles": _deployments(namespace, config, image),
    }


def _space(namespace: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/part-of": "spinney", "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}


def _rights(namespace: str, config: Path | None) -> Objects:
    from spinney.api.roles import metrics_roles, rbac_objects, tenant_roles
    from spinney.whatif.inputs.operator_settings import names_of

    return [*rbac_objects(namespace, names_of(_read(config)[1])), *metrics_roles(namespace), *tenant_roles()]


def _classes() -> Objects:
    from spinney.api.priority_classes import priority_classes

    return priority_classes()


def _kinds(namespace: str) -> Objects:
    """The definitions where a webhook converts versions."""
    from spinney.api.crds import all_crds
    from spinney.cli.wiring.install_manifests import address_in

    return all_crds(address_in(namespace).conversion())


def _webhooks(namespace: str, config: Path | None) -> Objects:
    from spinney.cli.wiring.install_manifests import webhook_objects

    return webhook_objects(namespace, _read(config)[1])


def _policies(namespace: str, config: Path | None) -> Objects:
    from spinney.cli.wiring.install_manifests import policy_objects

    return policy_objects(namespace, _read(config)[1])


def _deployments(namespace: str, config: Path | None, image: str | None) -> Objects:
    from spinney.cli.wiring.install_manifests import deployment_objects
    from spinney.version import VERSION

    document, configuration = _read(config)
    return deployment_objects(namespace, image or f"spinney:{VERSION}", document, configuration)


def _read(config: Path | None) -> tuple[dict[str, Any], Any]:
    """The configuration as it will be mounted, as document and as value; one that cannot be used is refused."""
    import yaml

    from spinney.api.documents import read_bounded, read_document
    from spinney.api.operator_configuration import ConfigurationError
    from spinney.cli.wiring.install_manifests import DEFAULTS, for_pods
    from spinney.whatif.inputs.operator_settings import ConfigurationError as OptionError
    from spinney.whatif.inputs.operator_settings import read_configuration

    try:
        read_configuration(config, otherwise="")
        given: Any = DEFAULTS
        if config is not None:
            with config.open("rb") as stream:
                given = read_document(read_bounded(stream))
        document = for_pods(given or {})
        return document, read_configuration(None, otherwise=yaml.safe_dump(document))
    except (OptionError, ConfigurationError) as error:
        click.echo(f"spinney manifests: {error}", err=True)
        raise SystemExit(2) from None


def _print(found: Objects, output: str) -> None:
    if output == "json":
        import json

        items = {"apiVersion": "v1", "kind": "List", "items": found}
        click.echo(json.dumps(items, indent=2, ensure_ascii=False))
        return
    import yaml

    click.echo(yaml.safe_dump_all(found, sort_keys=False, allow_unicode=True, width=120), nl=False)
