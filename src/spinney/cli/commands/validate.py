"""`spinney validate` and `spinney convert`: manifests judged, and DynamoGraphDeployments in another version (D12).

Nothing is written to a cluster. Whatever else a file holds passes through a conversion.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spinney.cli.options import (
    NO,
    UNREADABLE,
    chosen_context,
    config_option,
    context_option,
    left_out,
    manifests_option,
    output_option,
    print_structured,
    stop,
)

if TYPE_CHECKING:
    from spinney.api.operator_configuration import OperatorConfiguration
    from spinney.whatif.validation import ValidationResult


VERSIONS = ("v1beta1", "v1alpha1")


@click.command(
    epilog="""\b
Examples:
  spinney convert -f graph.yaml | kubectl apply -f -
  spinney convert -f old.yaml --to v1beta1 -o json
  cat graph.yaml | spinney convert -f - --to v1alpha1

\b
Read are v1beta1 (components), v1alpha1 (services as a map) and the list form (services as a list with names).
Exit status: 0 converted, 2 something cannot be read or is no DynamoGraphDeployment of a known shape.
""",
)
@manifests_option
@click.option("--to", "version", type=click.Choice(VERSIONS), default=VERSIONS[0], show_default=True)
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def convert(manifests: tuple[Path, ...], version: str, output: str) -> None:
    """Print deployments in another version of their API. Nothing is lost on the way."""
    from spinney.api.dynamo_conversion import ConversionError
    from spinney.whatif.inputs.manifests import ManifestError, read_manifests

    try:
        given = read_manifests(manifests)
        if not any(one.content.get("kind") == "DynamoGraphDeployment" for one in given):
            names = ", ".join(str(one) for one in given) or "nothing"
            raise ConversionError(f"{names}: found no DynamoGraphDeployment, expected one at least")
        found = [_converted(one.content, f"nvidia.com/{version}", str(one)) for one in given]
    except (ManifestError, ConversionError, OSError) as error:
        stop("convert", str(error), UNREADABLE)
    _print_converted(found, output)


def _converted(content: dict[str, Any], desired: str, where: str) -> dict[str, Any]:
    from spinney.api.dynamo_conversion import ConversionError, from_list_form
    from spinney.api.dynamo_conversion import convert as between

    if content.get("kind") != "DynamoGraphDeployment":
        return content
    try:
        is_listed = isinstance((content.get("spec") or {}).get("services"), list)
        return between(from_list_form(content) if is_listed else content, desired)
    except ConversionError as error:
        raise ConversionError(f"{where}: {error}") from error


def _print_converted(found: list[dict[str, Any]], output: str) -> None:
    if output == "json":
        shown = found[0] if len(found) == 1 else {"apiVersion": "v1", "kind": "List", "items": found}
        print_structured(shown, output)
        return
    import yaml

    click.echo(yaml.safe_dump_all(found, sort_keys=False, allow_unicode=True, width=120), nl=False)


@click.command(
    epilog="""\b
Examples:
  spinney validate -f workload.yaml --topology topologies.yaml
  spinney validate -f workloads/ --config operator.yaml
  kubectl kustomize . | spinney validate -f - --kubeconfig ~/.kube/config -o json

\b
Exit status: 0 all admitted, 1 some refused, 2 usage, files or configuration.
""",
)
@manifests_option
@click.option(
    "--topology",
    "topologies",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="ClusterTopologies that count as being in the cluster.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    metavar="F",
    help="Read this cluster: its topologies, and the objects that the manifests would change.",
)
@context_option
@config_option
@output_option
def validate(
    manifests: tuple[Path, ...],
    topologies: tuple[Path, ...],
    kubeconfig: Path | None,
    config: Path | None,
    output: str,
) -> None:
    """Say whether manifests of our kinds would be admitted, and everything that is wrong with them.

    The topologies are those of the files, of --topology, or of the cluster; else the one of the operator's
    configuration, as for `spinney plan --nodes`.
    """
    if topologies and kubeconfig:
        raise click.UsageError("--topology and --kubeconfig exclude each other: a cluster has its own topologies")
    import asyncio

    from spinney.drive.client.errors import ClientError
    from spinney.drive.operator.startup import StartupFailed
    from spinney.whatif.inputs.manifests import ManifestError
    from spinney.whatif.inputs.operator_settings import ConfigurationError

    try:
        configuration = _configuration(config, is_bare=not topologies and kubeconfig is None)
        judgements = asyncio.run(_judged(manifests, topologies, kubeconfig, configuration))
    except (ManifestError, ConfigurationError, ClientError, StartupFailed, OSError) as error:
        stop("validate", str(error), UNREADABLE)
    _print(judgements, output)
    if any(one.errors for one in judgements):
        raise SystemExit(NO)


def _configuration(path: Path | None, *, is_bare: bool) -> OperatorConfiguration | None:
    """Where nothing says which topologies there are (`is_bare`), there is that of the default configuration."""
    from spinney.whatif.inputs.operator_settings import read_configuration

    return read_configuration(path) if path is not None or is_bare else None


async def _judged(
    manifests: tuple[Path, ...],
    topologies: tuple[Path, ...],
    kubeconfig: Path | None,
    configuration: OperatorConfiguration | None,
) -> list[ValidationResult]:
    from spinney.core.admission.settings import AdmissionSettings, settings_of
    from spinney.drive.client.config.kubeconfig import cluster_client
    from spinney.drive.operator.settings_from_config import capabilities_of
    from spinney.whatif.inputs.manifests import read_manifests
    from spinney.whatif.inputs.snapshot import ClusterReader
    from spinney.whatif.validation import Validator

    given = read_manifests(manifests)
    known = read_manifests(topologies)
    settings = AdmissionSettings()
    if configuration is not None:
        settings = settings_of(configuration, capabilities=capabilities_of(configuration))
    async with AsyncExitStack() as held:
        reader = None
        if kubeconfig is not None:
            reader = ClusterReader(
                await held.enter_async_context(cluster_client(kubeconfig, left_out("validate"), chosen_context()))
            )
        validator = Validator(settings, reader)
        if configuration is not None and reader is None:
            validator.know_default(configuration)
        await validator.know_topologies(known)
        return [await validator.judge(one) for one in given]


def _print(judgements: list[ValidationResult], output: str) -> None:
    if output == "table":
        for one in judgements:
            _print_lines(one)
        return
    print_structured([one.to_json() for one in judgements], output)


def _print_lines(one: ValidationResult) -> None:
    why = "" if one.judged else ": not a kind of ours"
    click.echo(f"{one.verdict:8} {one.object} ({one.manifest.where}){why}")
    for error in one.errors:
        click.echo(f"  {error}")
    for warning in one.warnings:
        click.echo(f"  warning: {warning}")
