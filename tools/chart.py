"""The static part of the Helm chart in deploy/chart, made of what `spinney manifests all` prints.

What an installation may say otherwise stands as a placeholder in the manifests and becomes an expression of the
template. Hand-written are `_helpers.tpl`, `NOTES.txt`, what is off by default, and `values.schema.json`, whose
descriptions are the comments of `values.yaml`.

    python tools/chart.py            # say which files differ
    python tools/chart.py --write    # write them
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from spinney.api.labels import CONFIGURATION_HASH
from spinney.cli.commands.manifests import parts_of
from spinney.cli.wiring.install_manifests import CONFIG_FILE, DEFAULTS, for_pods, role_defaults
from spinney.version import VERSION

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "chart"
PAGE = ROOT / "docs" / "install.md"
BEGIN, END = "<!-- values: written by tools/chart.py -->", "<!-- end of values -->"
HEAD = "{{- /* Written by tools/chart.py; what it says is changed there or in src/spinney. */ -}}\n"

NAMESPACE, IMAGE = "spinney-release-namespace", "spinney-image-of-roles"
"""Placeholders. The namespace sorts as the default one does among the system's namespaces."""

KEEP = "helm.sh/resource-policy"

Object = dict[str, Any]


def files() -> dict[Path, str]:
    """Every file that is written, with its content."""
    found = {CHART / "templates" / f"{name}.yaml": HEAD + _template(objs) for name, objs in _parts().items()}
    found[CHART / "Chart.yaml"] = _chart()
    found[CHART / "values.yaml"] = _values()
    return found


def _parts() -> dict[str, list[Object]]:
    """An uninstallation keeps the kinds, for all objects of users would go with them."""
    parts = parts_of(NAMESPACE, None, IMAGE)
    for obj in parts["kinds"]:
        obj["metadata"]["annotations"] = {**obj["metadata"].get("annotations", {}), KEEP: "keep"}
    return parts


def _template(objs: list[Object]) -> str:
    texts = []
    for obj in objs:
        text = _role(obj) if obj["kind"] in ("Deployment", "ConfigMap") else _plain(obj)
        texts.append(
            text.replace(NAMESPACE, "{{ .Release.Namespace }}").replace(IMAGE, '{{ include "spinney.image" . }}')
        )
    return "---\n".join(["", *texts]).removeprefix("\n")


def _plain(obj: Object) -> str:
    text = yaml.safe_dump(obj, sort_keys=False, allow_unicode=True, width=4000)
    return re.sub(r"\{\{|\}\}", lambda found: f'{{{{ "{found[0]}" }}}}', text)


def _role(obj: Object) -> str:
    """The configuration, or a role's Deployment, with what values say in place of what is the default."""
    if obj["kind"] == "ConfigMap":
        text = yaml.safe_dump(obj | {"data": {CONFIG_FILE: "PLACE"}}, sort_keys=False)
        return text.replace("PLACE", "|\n{{ toYaml .Values.configuration | indent 4 }}")
    role = obj["metadata"]["name"].removeprefix("spinney-")
    of = f".Values.roles.{role}"
    template = obj["spec"]["template"]
    (container,) = template["spec"]["containers"]
    obj["spec"]["replicas"] = "PLACE-REPLICAS"
    template["metadata"]["annotations"][CONFIGURATION_HASH] = "PLACE-DIGEST"
    template["spec"]["priorityClassName"] = "PLACE-PRIORITY"
    template["spec"] = {"PLACE-ON": "nodes", **template["spec"]}
    container["resources"] = "PLACE-RESOURCES"
    container["imagePullPolicy"] = "PLACE-PULL"
    if role == "dashboard":
        container["args"].append("PLACE-ARGUMENTS")
        container["volumeMounts"].append("PLACE-MOUNT")
        template["spec"]["volumes"].append("PLACE-VOLUME")
    text = yaml.safe_dump(obj, sort_keys=False, width=4000)
    told = {
        "PLACE-REPLICAS": f"{{{{ {of}.replicas }}}}",
        "PLACE-DIGEST": '"{{ include "spinney.digest" . }}"',
        "      priorityClassName: PLACE-PRIORITY\n": _where(f"{of}.priorityClassName", 6, "priorityClassName"),
        "      PLACE-ON: nodes\n": "".join(
            _block(f"{of}.{key}", 6, key) for key in ("nodeSelector", "tolerations", "affinity")
        )
        + _block(".Values.imagePullSecrets", 6, "imagePullSecrets"),
        "resources: PLACE-RESOURCES": f"resources: {{{{- toYaml {of}.resources | nindent 10 }}}}",
        "        imagePullPolicy: PLACE-PULL\n": _where(".Values.image.pullPolicy", 8, "imagePullPolicy"),
        "        - PLACE-ARGUMENTS\n": _included("spinney.dashboard.arguments", 8),
        "        - PLACE-MOUNT\n": _included("spinney.dashboard.mounts", 8),
        "      - PLACE-VOLUME\n": _included("spinney.dashboard.volumes", 6),
    }
    for place, expression in told.items():
        text = text.replace(place, expression)
    return text


def _where(value: str, indent: int, key: str) -> str:
    blank = " " * indent
    return f"{blank}{{{{- with {value} }}}}\n{blank}{key}: {{{{ . }}}}\n{blank}{{{{- end }}}}\n"


def _block(value: str, indent: int, key: str) -> str:
    blank = " " * indent
    body = f"{blank}{key}: {{{{- toYaml . | nindent {indent + 2} }}}}\n"
    return f"{blank}{{{{- with {value} }}}}\n{body}{blank}{{{{- end }}}}\n"


def _included(name: str, indent: int) -> str:
    blank = " " * indent
    return f'{blank}{{{{- with include "{name}" . }}}}\n{blank}{{{{- . | nindent {indent} }}}}\n{blank}{{{{- end }}}}\n'


def _chart() -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v2",
            "name": "spinney",
            "description": "Topology aware gang scheduling: operator, scheduler, webhook, Dynamo part and dashboard",
            "type": "application",
            "version": VERSION,
            "appVersion": VERSION,
            "kubeVersion": ">=1.30.0-0",
        },
        sort_keys=False,
        width=200,
    )


def _values() -> str:
    """Defaults, each below its description in the schema."""
    described = json.loads((CHART / "values.schema.json").read_text())["properties"]
    on_nodes = {"nodeSelector": {}, "tolerations": [], "affinity": {}}
    defaults: Object = {
        "image": {"repository": "spinney", "tag": "", "pullPolicy": ""},
        "imagePullSecrets": [],
        "configuration": for_pods(DEFAULTS),
        "roles": {role: told | on_nodes for role, told in role_defaults().items()},
        "dashboard": {"expose": False, "tokenSecret": "", "certificateSecret": ""},
        "metrics": {
            "services": False,
            "serviceMonitor": {"enabled": False, "labels": {}, "interval": "30s"},
            "rules": {"enabled": False, "labels": {}},
            "grafanaDashboard": {"enabled": False, "labels": {"grafana_dashboard": "1"}},
        },
        "networkPolicy": {"enabled": False},
    }
    parts = ["# Written by tools/chart.py. Every value is described in values.schema.json and docs/install.md.\n"]
    for key, value in defaults.items():
        text = yaml.dump({key: value}, sort_keys=False, Dumper=_NoAliases)
        parts.append(f"# {described[key]['description']}\n{text}")
    return "\n".join(parts)


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def table() -> str:
    """The values as rows of a page, from the schema and the defaults."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    rows = list(_rows(schema, yaml.safe_load(_values()), "", schema))
    return "\n".join(["| value | default | meaning |", "|---|---|---|", *rows])


def _rows(schema: Object, values: Any, prefix: str, whole: Object) -> Any:
    for name, one in schema["properties"].items():
        described = whole["$defs"][one["$ref"].rpartition("/")[2]] | one if "$ref" in one else one
        value = values[name]
        path = f"{prefix}{name}"
        if "properties" in described and not described.get("x-whole"):
            yield from _rows(described, value, f"{path}.", whole)
        else:
            shown = "see `values.yaml`" if described.get("x-whole") else f"`{json.dumps(value)}`"
            yield f"| `{path}` | {shown} | {described['description']} |"


def page(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main() -> int:
    wanted = files() | {PAGE: page(PAGE.read_text())}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
        if "--write" in sys.argv:
            path.write_text(wanted[path])
    return 0 if "--write" in sys.argv or not stale else 1


if __name__ == "__main__":
    sys.exit(main())
