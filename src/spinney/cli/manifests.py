"""`spinney manifests`: what a cluster needs before the roles can run, for `kubectl apply -f -`."""

from __future__ import annotations

import click


@click.group()
def manifests() -> None:
    """Print the manifests that a cluster needs."""


@manifests.command()
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def crds(output: str) -> None:
    """Print the custom resource definitions."""
    from spinney.api.crds import all_crds

    found = all_crds()
    if output == "json":
        import json

        items = {"apiVersion": "v1", "kind": "List", "items": found}
        click.echo(json.dumps(items, indent=2, ensure_ascii=False))
        return
    import yaml

    click.echo(yaml.safe_dump_all(found, sort_keys=False, allow_unicode=True, width=120), nl=False)
