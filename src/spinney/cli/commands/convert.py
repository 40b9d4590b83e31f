"""`spinney convert`: DynamoGraphDeployments between their shapes; whatever else a file holds passes through (D12)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from spinney.cli.options import UNREADABLE, manifests_option, print_structured, stop

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
        found = [_converted(one.content, f"nvidia.com/{version}", str(one)) for one in read_manifests(manifests)]
    except (ManifestError, ConversionError, OSError) as error:
        stop("convert", str(error), UNREADABLE)
    _print(found, output)


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


def _print(found: list[dict[str, Any]], output: str) -> None:
    if output == "json":
        shown = found[0] if len(found) == 1 else {"apiVersion": "v1", "kind": "List", "items": found}
        print_structured(shown, output)
        return
    import yaml

    click.echo(yaml.safe_dump_all(found, sort_keys=False, allow_unicode=True, width=120), nl=False)
