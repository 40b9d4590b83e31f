"""The tables of docs/errors.md: what is said to every mistake of tools/error_cases.yaml, by the rules themselves.

No text is written by hand. A place in the code that refuses or warns and is reached by no case is an error here: so
the page knows every refusal that a user can cause.

    python tools/error_table.py            # print the tables
    python tools/error_table.py --write    # put them into the page
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import copy
import importlib
import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import msgspec
import yaml

from kube_apimachinery.admission import AdmissionRequest, Unreadable, Verdict
from spinney.api import operator_configuration
from spinney.api.crds import all_crds
from spinney.api.operator_configuration import ConfigurationError, load_configuration
from spinney.core import admission
from spinney.core.admission import dynamo as dynamo_admission
from spinney.core.admission.dynamo.defaults import DynamoAdmissionSettings
from spinney.core.admission.dynamo.dynamo_admission import DynamoAdmission
from spinney.core.admission.findings import Findings
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import KAI, AdmissionSettings
from spinney.core.expansion.backends import Capabilities
from spinney.whatif.inputs.manifests import Manifest
from spinney.whatif.validation import Validator

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "errors.md"
CASES = ROOT / "tools" / "error_cases.yaml"
BEGIN, END = "<!-- errors: written by tools/error_table.py -->", "<!-- end of errors -->"
MAKERS = ("invalid", "required", "forbidden", "duplicate", "not_supported")
SETTINGS = {
    "": AdmissionSettings(),
    "topology off": AdmissionSettings(topology_enabled=False),
    "with NVLink": AdmissionSettings(mnnvl_enabled=True),
    "default-scheduler": AdmissionSettings(
        backends={"default-scheduler": Capabilities()}, default_backend="default-scheduler"
    ),
    "without numa": AdmissionSettings(
        backends={"kai-scheduler": Capabilities(KAI.gang, KAI.required_topology, KAI.preferred_topology, numa=False)}
    ),
    "protected": AdmissionSettings(protects_managed=True),
    "queues required": AdmissionSettings(requires_queue=True),
}
NUMA_LEVEL = {"domain": "numa", "key": "example.com/numa"}
_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")

Site = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one mistake is told: pairs of field and text."""

    what: str
    errors: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Cluster:
    """What the rules can look at."""

    objects: dict[tuple[str, str], Json] = field(default_factory=dict)  # by plural and name
    cliques: list[Json] = field(default_factory=list)
    is_forbidden: bool = False

    async def get(self, group: str, plural: str, namespace: str, name: str) -> Json | None:
        return self(group, plural, namespace, name)

    async def list(self, group: str, plural: str, namespace: str, labels: Mapping[str, str]) -> Sequence[Json]:
        return self.listing(group, plural, namespace, labels)

    def __call__(self, group: str, plural: str, namespace: str, name: str, /) -> Json | None:
        if self.is_forbidden:
            raise Unreadable(f"{plural}.{group} is forbidden")
        return self.objects.get((plural, name))

    def listing(
        self, group: str, plural: str, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> Sequence[Json]:
        if plural == "podcliques":
            return self.cliques
        return [one for (kind, _), one in self.objects.items() if kind == plural]


# What the code can say, and what of it has been said.


def modules() -> list[ModuleType]:
    return [
        importlib.import_module(found.name)
        for package in (admission, dynamo_admission, operator_configuration)
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ]


def sites() -> dict[Site, str]:
    """Every place that makes a refusal or a warning; those of module level are constants."""
    found: dict[Site, str] = {}
    for module in modules():
        tree = ast.parse(inspect.getsource(module))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        for call in (node for function in functions for node in ast.walk(function) if isinstance(node, ast.Call)):
            if _speaks(call):
                found[module.__name__, call.lineno] = ast.unparse(call)
    return found


def _speaks(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr == "warn"
    if not isinstance(call.func, ast.Name):
        return False
    refuses = call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value is False
    return call.func.id in MAKERS or (call.func.id == "Verdict" and bool(refuses))


def schema_texts() -> set[str]:
    """What the schemas of our kinds say beyond types and bounds; Dynamo's kinds are told elsewhere."""
    found: set[str] = set()
    open_: list[Any] = [one for one in all_crds() if one["spec"]["group"] != "nvidia.com"]
    while open_:
        part = open_.pop()
        if isinstance(part, dict):
            rules = part.get("x-kubernetes-validations", ())
            found.update(rule["message"] for rule in rules if isinstance(rule, dict))
            open_ += part.values()
        elif isinstance(part, list):
            open_ += part
    return found


@contextlib.contextmanager
def listening() -> Iterator[set[Site]]:
    """The places that have spoken in the block."""
    heard: set[Site] = set()

    def noted(make: Callable[..., Any]) -> Callable[..., Any]:
        def speak(*given: Any, **named: Any) -> Any:
            caller = sys._getframe(1)
            heard.add((caller.f_globals["__name__"], caller.f_lineno))
            return make(*given, **named)

        return speak

    with contextlib.ExitStack() as held:
        for module in modules():
            for name in (*MAKERS, "Verdict"):
                if hasattr(module, name):
                    held.enter_context(mock.patch.object(module, name, noted(getattr(module, name))))
        held.enter_context(mock.patch.object(Findings, "warn", noted(Findings.warn)))
        yield heard


# From a case to its answer.


def put(obj: Any, path: str, value: Any) -> None:
    *way, last = _STEP.findall(path)
    for step in way:
        obj = obj[int(step[1:-1])] if step.startswith("[") else obj.setdefault(step, {})
    if not last.startswith("["):
        obj[last] = value
    elif int(last[1:-1]) == len(obj):
        obj.append(value)
    else:
        obj[int(last[1:-1])] = value


def drop(obj: Any, path: str) -> None:
    *way, last = _STEP.findall(path)
    for step in way:
        obj = obj[int(step[1:-1])] if step.startswith("[") else obj[step]
    del obj[int(last[1:-1]) if last.startswith("[") else last]


class Desk:
    """Answers cases, one at a time and each with a cluster of its own."""

    def __init__(self, base: Json) -> None:
        self._base = base

    def answer(self, case: Json) -> Answer:
        if "configuration" in case:
            return self._of_configuration(case)
        if "managed" in case:
            return self._of_managed(case)
        if "reserved" in case:
            return self._of_reserved(case)
        old, new = self._objects(case)
        cluster = self._cluster(case, old)
        settings = SETTINGS[case.get("settings", "")]
        if case.get("rules_only"):
            operation = "CREATE" if old is None else "UPDATE"
            if new["kind"] == "DynamoGraphDeployment":
                request = _request(new, old, operation, ("nvidia.com", "dynamographdeployments"))
                return _answer(case, DynamoAdmission(DynamoAdmissionSettings()).validate(request, cluster))
            request = _request(new, old, operation)
            return _answer(case, OperatorAdmission(settings).validate(request, cluster))
        return asyncio.run(self._validated(case, settings, cluster, old, new))

    def _objects(self, case: Json) -> tuple[Json | None, Json]:
        new = copy.deepcopy(self._base[case.get("object", "set")])
        for path, value in case.get("before", {}).items():
            put(new, path, value)
        old = copy.deepcopy(new) if "before" in case else None
        for path, value in case.get("set", {}).items():
            put(new, path, value)
        for path in case.get("drop", []):
            drop(new, path)
        if "crowd" in case:
            new["spec"]["template"]["cliques"] = new["spec"]["template"]["cliques"][:1] * case["crowd"]
        if "depth" in case:
            old, new = _nested(new, case["depth"]), _nested(new, case["depth"])
        return old, new

    def _cluster(self, case: Json, old: Json | None) -> Cluster:
        cluster = Cluster(is_forbidden=bool(case.get("forbidden")))
        for name, levels in self._base["topologies"].items():
            shown = [{"domain": domain, "key": key} for domain, key in levels.items()]
            obj: Json = {"metadata": {"name": name}, "spec": {"levels": shown}}
            if case.get("settings") == "without numa":
                shown.append(NUMA_LEVEL)
            if case.get("leaving") == name:
                obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            if not case.get("fresh"):
                cluster.objects["clustertopologies", name] = obj
                twin = {"metadata": {"name": name}, "spec": {"levels": [{"nodeLabel": key} for key in levels.values()]}}
                cluster.objects["topologies", name] = twin
        if case.get("scheduled"):
            users = copy.deepcopy(self._base["set"])
            users["spec"]["template"]["topologyConstraint"] = {"packDomain": "rack"}
            if case.get("object") == "topology":
                users["spec"]["template"]["clusterTopologyName"] = self._base["topology"]["metadata"]["name"]
            cluster.objects["podcliquesets", "-"] = users
            labels = {"app.kubernetes.io/part-of": users["metadata"]["name"]}
            clique = {"metadata": {**users["metadata"], "labels": labels}, "status": {"scheduledReplicas": 1}}
            cluster.cliques.append(clique)
        return cluster

    async def _validated(
        self, case: Json, settings: AdmissionSettings, cluster: Cluster, old: Json | None, new: Json
    ) -> Answer:
        validator = Validator(settings, cluster)
        if old is not None:
            before = await validator.judge(Manifest("before", old))
            assert not before.errors, f"{case['what']}: what was there is wrong: {before.errors}"
        found = await validator.judge(Manifest("now", new))
        told = tuple((error.path, error.body()) for error in found.errors)
        return Answer(case["what"], told, found.warnings)

    def _of_configuration(self, case: Json) -> Answer:
        given = case["configuration"]
        try:
            load_configuration(given if isinstance(given, str) else json.dumps(given))
        except ConfigurationError as error:
            return Answer(case["what"], tuple((one.path, one.body()) for one in error.problems))
        raise AssertionError(f"{case['what']}: nothing was refused")

    def _of_managed(self, case: Json) -> Answer:
        labels = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "chat"}
        old = {"metadata": {"name": "chat-0", "namespace": "default", "labels": labels}}
        kind = ("grove.io", "podcliques") if case["managed"] == "UPDATE" else ("", "services")
        request = _request(old, old, case["managed"], kind)
        cluster = Cluster({("podcliquesets", "chat"): self._base["set"]})
        return _answer(case, OperatorAdmission(SETTINGS["protected"]).validate(request, cluster))

    def _of_reserved(self, case: Json) -> Answer:
        group, resource, subresource = case["reserved"]
        key = "spinney.dev/rank" if resource == "pods" else "spinney.dev/plan"
        new = {"metadata": {"name": "chat-0", "namespace": "default", "annotations": {key: "1"}}}
        request = msgspec.structs.replace(
            _request(new, {"metadata": {"name": "chat-0"}}, "UPDATE", (group, resource)), subresource=subresource
        )
        return _answer(case, OperatorAdmission(SETTINGS[""]).validate(request, Cluster()))


def _answer(case: Json, verdict: Verdict) -> Answer:
    told = tuple((error.path, error.body()) for error in verdict.errors)
    if verdict.message:
        told += (("", verdict.message),)
    if "nothing_but" in case:
        told = tuple(one for one in told if case["nothing_but"] in one[1])
    return Answer(case["what"], told, verdict.warnings)


def _nested(obj: Json, depth: int) -> Json:
    made = copy.deepcopy(obj)
    inner: Json = {}
    for _ in range(depth):
        inner = {"a": inner}
    if "services" in made["spec"]:
        made["spec"]["services"]["Decode"]["extraPodSpec"]["a"] = inner
    else:
        made["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["a"] = inner
    return made


def _request(
    new: Json, old: Json | None, operation: str, kind: tuple[str, str] = ("grove.io", "podcliquesets")
) -> AdmissionRequest:
    return AdmissionRequest(
        uid="",
        operation=operation,
        group=kind[0],
        version="v1",
        kind="",
        resource=kind[1],
        subresource="",
        namespace="default",
        name=new["metadata"]["name"],
        user="ada",
        groups=(),
        object=new,
        old_object=old,
    )


# From answers to the page.


def answers(sections: Sequence[Json], desk: Desk) -> list[tuple[str, list[Answer]]]:
    return [(section["title"], [desk.answer(case) for case in section["cases"]]) for section in sections]


def shown(refusals: Sequence[tuple[str, list[Answer]]], warnings: Sequence[tuple[str, list[Answer]]]) -> str:
    lines: list[str] = []
    for title, found in refusals:
        lines += ["", f"## {title}", "", "| mistake | field | answer |", "|---|---|---|"]
        for one in found:
            assert one.errors, f"{one.what}: nothing was refused"
            lines += _rows(one.what, one.errors)
    for title, found in warnings:
        lines += ["", f"## {title}", "", "| what | warning |", "|---|---|"]
        for one in found:
            assert one.warnings, f"{one.what}: nothing was warned of"
            assert not one.errors, f"{one.what}: {one.errors}"
            lines += [f"| {one.what} | {_code(text)} |" for text in one.warnings]
    return "\n".join([*lines, ""])


def _rows(what: str, told: Sequence[tuple[str, str]]) -> list[str]:
    return [
        f"| {what if not index else ''} | {_code(path) if path else ''} | {_code(text)} |"
        for index, (path, text) in enumerate(told)
    ]


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def tables() -> str:
    """All of them; raises where a refusal of the code is missing."""
    given = yaml.safe_load(CASES.read_text(encoding="utf-8"))
    desk = Desk(given["base"])
    with listening() as heard:
        refusals, warnings = answers(given["sections"], desk), answers(given["warnings"], desk)
    content = shown(refusals, warnings)
    silent = [f"{module}:{line}: {text}" for (module, line), text in sites().items() if (module, line) not in heard]
    silent += [f"schema: {text}" for text in schema_texts() if text not in content]
    if silent:
        raise SystemExit("\n".join([f"no case in {CASES.name} reaches", *sorted(silent)]))
    return content


def with_tables(page: str, content: str) -> str:
    """The page with everything between its marks replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{content}\n{END}{after}"


def main(arguments: list[str]) -> None:
    content = tables()
    if "--write" in arguments:
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), content), encoding="utf-8")
    else:
        sys.stdout.write(f"{content}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
