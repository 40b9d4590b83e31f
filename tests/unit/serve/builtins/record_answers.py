"""Ask a real kube-apiserver what it makes of the objects in answers.jsonl, and write its answers beside them.

    python tests/unit/serve/builtins/record_answers.py --server URL --token TOKEN --ca ca.crt

Every line is one case: `create`, and for an update `change`, a merge patch (`status` is set in between). What the
server keeps becomes `stored`, with the cells of its table; what it refuses becomes `refused`. The server must be fresh.
"""

from __future__ import annotations

import argparse
import json
import re
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kube_embedded.builtins import builtin_resources

ANSWERS = Path(__file__).with_name("answers.jsonl")
NAMESPACE = "recorded"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
Json = dict[str, Any]
RESOURCES = {(one.group_version, one.kind): one for one in builtin_resources()}


@dataclass(frozen=True)
class Server:
    address: str
    token: str
    context: ssl.SSLContext

    def call(self, method: str, path: str, body: Json | None = None, accept: str = "application/json") -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Accept": accept, "Content-Type": "application/json"}
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, sent, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=30) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            return json.load(error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--server", "--token", "--ca"):
        parser.add_argument(name, required=True)
    arguments = parser.parse_args()
    server = Server(arguments.server, arguments.token, ssl.create_default_context(cafile=arguments.ca))
    server.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    lines = [json.dumps(record(server, json.loads(line))) for line in ANSWERS.read_text().splitlines()]
    ANSWERS.write_text("".join(f"{UID.sub('recorded-uid', line)}\n" for line in lines))


def record(server: Server, case: Json) -> Json:
    """The case with the answer of the server."""
    asked = {key: case[key] for key in ("name", "create", "status", "change", "subresource") if key in case}
    path = collection(case["create"])
    made = server.call("POST", f"{path}?fieldValidation=Strict", case["create"])
    if refused(made):
        return {**asked, "refused": refusal(made)}  # type: ignore[dict-item]
    where = f"{path}/{made['metadata']['name']}"
    try:
        answer = updated(server, where, case) if "change" in case else {}
        return {**asked, **answer} if "refused" in answer else {**asked, **answer, **kept(server, where)}  # type: ignore[dict-item]
    finally:
        server.call("DELETE", f"{where}?gracePeriodSeconds=0&propagationPolicy=Background")


def updated(server: Server, where: str, case: Json) -> Json:
    old = server.call("GET", where)
    if "status" in case:
        server.call("PUT", f"{where}/status", {**old, "status": case["status"]})
        old = server.call("GET", where)
    suffix = "/status" if case.get("subresource") else ""
    answer = server.call("PUT", where + suffix, merged(old, case["change"]))
    trimmed = trim(old)
    return {"old": trimmed, "refused": refusal(answer)} if refused(answer) else {"old": trimmed}


def kept(server: Server, where: str) -> Json:
    table = server.call("GET", where, accept=TABLE)
    return {"stored": trim(server.call("GET", where)), "cells": table["rows"][0]["cells"]}


def collection(obj: Json) -> str:
    resource = RESOURCES[obj["apiVersion"], obj["kind"]]
    root = f"/apis/{resource.group_version}" if resource.group else f"/api/{resource.version}"
    return f"{root}/namespaces/{NAMESPACE}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"


def refused(answer: Json) -> bool:
    return bool(answer["kind"] == "Status" and answer.get("status") == "Failure")


def refusal(answer: Json) -> Json:
    causes = (answer.get("details") or {}).get("causes", [])
    return {"code": answer["code"], "reason": answer["reason"], "message": answer["message"], "causes": causes}


def trim(obj: Json) -> Json:
    hidden = ("managedFields", "resourceVersion", "selfLink")
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key not in hidden}}


def merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


if __name__ == "__main__":
    main()
