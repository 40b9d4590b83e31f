"""An admission webhook as others write them: an HTTPS server that answers AdmissionReviews."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cluster_kit.objects import config
from cluster_kit.server import eventually
from cluster_kit.space import Space
from spinney.sim.kubernetes.control_plane import write_certificates

Json = dict[str, Any]
Judge = Callable[[Json], Json]
"""From the request of an AdmissionReview to its response, without the uid."""


def allow(request: Json) -> Json:
    return {"allowed": True}


def deny(message: str = "not today", code: int = 403, **status: Any) -> Judge:
    return lambda request: {"allowed": False, "status": {"message": message, "code": code, **status}}


def patch(*operations: Json, **response: Any) -> Judge:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": encoded, **response}


def label(key: str, value: str) -> Json:
    return {"op": "add", "path": f"/metadata/annotations/{key}", "value": value}


@dataclass
class WebhookServer:
    """Answers `/name` with the judge of that name and remembers what it was asked."""

    directory: Path
    judges: dict[str, Judge] = field(default_factory=dict)
    raw: dict[str, Callable[[BaseHTTPRequestHandler, Json], None]] = field(default_factory=dict)
    """Paths that answer by hand: garbage, delays, broken connections."""
    asked: list[tuple[str, Json]] = field(default_factory=list)
    url: str = ""
    bundle: str = ""

    def start(self) -> None:
        certificates = write_certificates(self.directory)
        self.bundle = base64.b64encode(certificates.authority.read_bytes()).decode()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server, certificates.server_key)
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def requests(self, name: str) -> list[Json]:
        return [request for asked, request in self.asked if asked == name]

    def _handler(outer: WebhookServer) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                name = self.path.split("?")[0].strip("/")
                outer.asked.append((name, review["request"]))
                if name in outer.raw:
                    outer.raw[name](self, review)
                    return
                response = {"uid": review["request"]["uid"], **outer.judges[name](review["request"])}
                answer(self, {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        return Handler


def answer(handler: BaseHTTPRequestHandler, body: Any, code: int = 200) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(code)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(raw)))
    handler.end_headers()
    handler.wfile.write(raw)


PROBE = "probe.example.com"


@dataclass
class Webhooks:
    """Registers webhooks for one namespace and waits until the server uses them."""

    server: WebhookServer
    space: Space
    cluster: Space
    unique: str

    def register(self, kind: str, *entries: Json) -> str:
        """`kind` is Mutating or Validating; an entry has a `judge` or a raw path, and what is not default."""
        name = f"{self.unique}-{kind.lower()}-{len(self.server.judges)}"
        probe = f"probe-{name}"
        self.server.judges[probe] = allow
        hooks = [self._hook(index, entry) for index, entry in enumerate(entries)]
        probing = self._hook(99, {"name": PROBE, "path": probe})
        probing["objectSelector"] = {"matchLabels": {"probe": name}}
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [*hooks, probing],
        }
        self.cluster.create(f"{kind.lower()}webhookconfigurations", body).ok(201)
        self.await_active(name, probe)
        return name

    def await_active(self, name: str, probe: str) -> None:
        before = len(self.server.requests(probe))

        def active() -> bool:
            self.space.create("configmaps", config("probe", labels={"probe": name}), dryRun="All")
            return len(self.server.requests(probe)) > before

        eventually(active, f"webhook configuration {name} is used")
        self.server.asked.clear()

    def mutating(self, *entries: Json) -> str:
        return self.register("Mutating", *entries)

    def validating(self, *entries: Json) -> str:
        return self.register("Validating", *entries)

    def _hook(self, index: int, entry: Json) -> Json:
        entry = dict(entry)
        judge = entry.pop("judge", None)
        path = entry.pop("path", None) or f"h{len(self.server.judges)}-{index}"
        if judge is not None:
            self.server.judges[path] = judge
        hook = {
            "name": f"h{index}.example.com",
            "clientConfig": {"url": f"{self.server.url}/{path}", "caBundle": self.server.bundle},
            "rules": [rule("configmaps")],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.space.namespace}},
            **entry,
        }
        # The probe must not be judged by the hooks under test.
        unprobed = {"key": "probe", "operator": "DoesNotExist"}
        selector = hook.get("objectSelector", {})
        if hook["name"] != PROBE:
            hook["objectSelector"] = {**selector, "matchExpressions": [*selector.get("matchExpressions", []), unprobed]}
        return hook


def rule(*resources: str, operations: tuple[str, ...] = ("CREATE", "UPDATE"), **more: Any) -> Json:
    return {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": list(resources),
        "operations": list(operations),
        **more,
    }
