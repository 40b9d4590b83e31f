"""Random lives of objects: who writes what, by which verb, in which order. The same seed gives the same life.

Maps and lists of custom objects are never empty: the real server turns some of them into null when they are applied
over what the same manager owned, and then refuses its own result.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from cluster_kit.objects import crd
from cluster_kit.server import Reply
from cluster_kit.space import Space

Json = dict[str, Any]
Request = Callable[[Space], Reply]

PART = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer", "default": 1},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    },
}
SCHEMA: Json = {
    "spec": {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "default": 3},
            "color": {"type": "string"},
            "parts": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": PART,
            },
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "order": {"type": "array", "items": {"type": "string"}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "map": {
                "type": "object",
                "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer"}}},
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    },
    "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
}

PORTS = {"main": 80, "s1": 81, "s2": 82, "init": 83}


def definition(group: str) -> Json:
    return crd(group, SCHEMA, subresources={"status": {}})


class Author:
    """Writes random bodies and requests."""

    def __init__(self, seed: int, group: str) -> None:
        self.dice = random.Random(seed)
        self.group = group
        self._kinds = {
            "widgets": (f"{group}/v1/widgets", f"{group}/v1", "Widget", self.widget),
            "deployments": ("deployments", "apps/v1", "Deployment", self.deployment),
            "services": ("services", "v1", "Service", self.service),
            "configmaps": ("configmaps", "v1", "ConfigMap", self.config),
        }

    def life(self, name: str) -> Iterator[tuple[str, Request]]:
        """Three to seven requests about one object, each with a word for the report."""
        kind = self.dice.choice(["widgets", "widgets", "deployments", "deployments", "services", "configmaps"])
        for _ in range(self.dice.randint(3, 7)):
            verb = self.dice.choice(
                ["apply", "apply", "apply", "create", "merge", "strategic", "replace", "delete", "status"]
            )
            yield from self._request(kind, verb, name)

    def _request(self, kind: str, verb: str, name: str) -> Iterator[tuple[str, Request]]:
        collection, *_ = self._kinds[kind]
        manager = self.dice.choice(["one", "two", "three"])
        match verb:
            case "apply":
                body, force = self._body(kind, name), self.dice.choice(["true", "false"])
                yield (
                    f"apply {manager} {force} {body}",
                    lambda at: at.apply(collection, body, manager=manager, force=force),
                )
            case "create":
                body = self._body(kind, name)
                yield f"create {body}", lambda at: at.create(collection, body, fieldManager=manager)
            case "merge" | "strategic":
                patch, type = self._patch(kind, name), "merge" if kind == "widgets" else verb
                yield (
                    f"{type} {manager} {patch}",
                    lambda at: at.patch(collection, name, patch, type, fieldManager=manager),
                )
            case "replace":
                body = self._body(kind, name)
                yield f"replace {manager} {body}", lambda at: self._replace(at, collection, body, manager)
            case "status" if kind in ("widgets", "deployments"):
                _, version, word, _ = self._kinds[kind]
                status = {"seen" if kind == "widgets" else "replicas": self.dice.randint(0, 3)}
                body = {"apiVersion": version, "kind": word, "metadata": {"name": name}, "status": status}
                yield f"status {manager} {status}", lambda at: at.apply(collection, body, manager=manager, sub="status")
            case "delete" if self.dice.random() < 0.4:
                yield "delete", lambda at: at.delete(collection, name)

    def _replace(self, at: Space, collection: str, body: Json, manager: str) -> Reply:
        current = at.get(collection, body["metadata"]["name"])
        if current.status == 200:
            version = current.body["metadata"]["resourceVersion"]
            body = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        return at.replace(collection, body, fieldManager=manager)

    def _body(self, kind: str, name: str) -> Json:
        _, version, word, fill = self._kinds[kind]
        return {"apiVersion": version, "kind": word, "metadata": {"name": name, **self.metadata()}, **fill()}

    def _patch(self, kind: str, name: str) -> Json:
        body = self._body(kind, name)
        del body["apiVersion"], body["kind"], body["metadata"]["name"]
        return {key: self._with_nulls(value) for key, value in body.items()}

    def _with_nulls(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: None if self.dice.random() < 0.15 else self._with_nulls(each) for key, each in value.items()}

    def some(self, chance: float, **fields: Callable[[], Any]) -> Json:
        """Each of the fields with this chance."""
        return {name: make() for name, make in fields.items() if self.dice.random() < chance}

    def pick(self, letters: str, least: int = 0, most: int = 3) -> list[str]:
        return self.dice.sample(letters, self.dice.randint(least, min(most, len(letters))))

    def digit(self) -> str:
        return self.dice.choice("12")

    def metadata(self) -> Json:
        return self.some(
            0.35,
            labels=lambda: {key: self.digit() for key in self.pick("lm", 1)},
            annotations=lambda: {key: self.digit() for key in self.pick("no", 1)},
        )

    def part(self, name: str) -> Json:
        return {"name": name, **self.some(0.4, count=lambda: self.dice.randint(0, 3), tags=lambda: self.pick("xyz", 1))}

    def widget(self) -> Json:
        spec = self.some(
            0.5,
            size=lambda: self.dice.randint(0, 5),
            color=lambda: self.dice.choice("rgb"),
            parts=lambda: [self.part(name) for name in self.pick("abcd", 1)],
            tags=lambda: self.pick("pqrs", 1),
            order=lambda: [self.dice.choice("uv") for _ in range(self.dice.randint(1, 3))],
            whole=lambda: {key: self.digit() for key in self.pick("kl", 1)},
            map=lambda: {key: {"a": self.dice.randint(0, 2)} for key in self.pick("efg", 1)},
            free=lambda: {key: self.dice.choice([1, "x", [1, 2], {"z": 1}]) for key in self.pick("hij", 1)},
        )
        return {"spec": spec}

    def container(self, name: str) -> Json:
        return {
            "name": name,
            "image": f"i:{self.digit()}",
            **self.some(
                0.5,
                env=lambda: [{"name": key, "value": self.digit()} for key in self.pick("ABC")],
                ports=lambda: [{"containerPort": PORTS[name], **self.some(0.5, protocol=lambda: "TCP")}],
                command=lambda: [self.dice.choice("ab")] * self.dice.randint(1, 2),
                resources=lambda: {"limits": {"cpu": self.dice.choice(["1", "500m"])}},
            ),
        }

    def deployment(self) -> Json:
        containers = [
            self.container(name) for name in ["main", *self.dice.sample(["s1", "s2"], self.dice.randint(0, 2))]
        ]
        pod = {
            "containers": containers,
            **self.some(
                0.3,
                tolerations=lambda: [{"key": self.dice.choice("tu"), "operator": "Exists"}],
                nodeSelector=lambda: {self.dice.choice("xy"): self.digit()},
                initContainers=lambda: [self.container("init")],
            ),
        }
        template = {"metadata": {"labels": {"app": "a", **self.some(0.4, v=self.digit)}}, "spec": pod}
        replicas = self.some(0.5, replicas=lambda: self.dice.randint(0, 4))
        return {"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template, **replicas}}

    def service(self) -> Json:
        ports = [
            {
                "port": port,
                "name": f"n{port}",
                **self.some(0.5, protocol=lambda: "TCP", targetPort=lambda: self.dice.choice([8080, "http"])),
            }
            for port in self.dice.sample([80, 81, 82], self.dice.randint(1, 3))
        ]
        return {
            "spec": {
                "ports": ports,
                "selector": {"app": self.dice.choice("ab")},
                **self.some(0.5, clusterIP=lambda: "None"),
            }
        }

    def config(self) -> Json:
        return {"data": {key: self.digit() for key in self.pick("abc", 1)}}
