"""Bodies that are huge, deep, broken, or not what they say."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from abuse.conftest import Target

MAPS = "/api/v1/namespaces/default/configmaps"
QUEUES = "/apis/scheduling.run.ai/v2/queues"
MIB = 1024 * 1024
JSON, YAML = "application/json", "application/yaml"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"

WAYS = {
    "create": ("POST", MAPS, JSON),
    "create-yaml": ("POST", MAPS, YAML),
    "create-protobuf": ("POST", MAPS, PROTOBUF),
    "create-custom": ("POST", QUEUES, JSON),
    "create-custom-yaml": ("POST", QUEUES, YAML),
    "update": ("PUT", f"{MAPS}/there", JSON),
    "merge-patch": ("PATCH", f"{MAPS}/there", MERGE),
    "json-patch": ("PATCH", f"{MAPS}/there", JSON_PATCH),
    "strategic-patch": ("PATCH", f"{MAPS}/there", STRATEGIC),
    "apply": ("PATCH", f"{MAPS}/there?fieldManager=me", APPLY),
    "apply-custom": ("PATCH", f"{QUEUES}/there?fieldManager=me", APPLY),
    "delete": ("DELETE", f"{MAPS}/there", JSON),
    "delete-protobuf": ("DELETE", f"{MAPS}/there", PROTOBUF),
    "delete-collection": ("DELETE", f"{MAPS}?labelSelector=none", JSON),
    "status": ("PATCH", f"{QUEUES}/there/status", MERGE),
    "bind": ("POST", "/api/v1/namespaces/default/pods/none/binding", JSON),
    "evict": ("POST", "/api/v1/namespaces/default/pods/none/eviction", JSON),
    "token": ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", JSON),
    "review": ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", JSON),
    "create-by-update": ("PUT", "/apis/rbac.authorization.k8s.io/v1/clusterroles/absent", JSON),
    "define": ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", JSON),
    "scale": ("PATCH", "/apis/apps/v1/namespaces/default/deployments/web/scale", MERGE),
    "scale-update": ("PUT", "/apis/apps/v1/namespaces/default/deployments/web/scale", JSON),
}
HOSTILE = {
    "not-utf8": b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"\xff\xfe"}}',
    "not-utf8-value": b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"},"data":{"a":"\xc3\x28"}}',
    "lone-surrogate": b'{"metadata":{"name":"n"},"data":{"a":"\\ud800"}}',
    "null-bytes": b"\x00\x00\x00\x00",
    "null-in-name": b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a\\u0000b"}}',
    "deep-lists": b"[" * 100_000,
    "deep-objects": b'{"a":' * 100_000,
    "deep-and-closed": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "deep-below-metadata": b'{"metadata":' + b'{"annotations":' * 2_000 + b"{}" + b"}" * 2_001,
    "huge-number": b'{"metadata":{"name":"n","generation":' + b"9" * 100_000 + b"}}",
    "huge-exponent": b'{"metadata":{"name":"n","generation":1e999999}}',
    "number": b"7",
    "text": b'"text"',
    "list": b"[]",
    "null": b"null",
    "nothing": b"",
    "broken": b'{"metadata":',
    "metadata-is-a-list": b'{"apiVersion":"v1","kind":"ConfigMap","metadata":[]}',
    "only-a-list-of-metadata": b'{"metadata":[]}',
    "only-a-text-of-metadata": b'{"metadata":"x"}',
    "metadata-is-a-text": b'{"apiVersion":"v1","kind":"ConfigMap","metadata":"x"}',
    "kind-is-a-number": b'{"apiVersion":1,"kind":2,"metadata":{"name":"n"}}',
    "utf16": '{"metadata":{"name":"n"}}'.encode("utf-16"),
    "protobuf-prefix-only": b"k8s\x00",
    "protobuf-garbage": b"k8s\x00" + bytes(range(256)) * 4,
    "protobuf-long-length": b"k8s\x00\x0a\xff\xff\xff\xff\x7f",
    "yaml-tag": b"!!python/object/apply:os.system [id]",
    "yaml-endless-alias": b"a: &a [*a]\n",
    "yaml-key-is-a-map": b"{{a: b}: c}",
    "yaml-control": b"a: \x07\x1b\n",
    "yaml-deep-dashes": b"- " * 50_000 + b"a",
    "yaml-deep-questions": b"? " * 50_000 + b"a",
    "yaml-long-number": b"a: 0x" + b"f" * 100_000,
    "yaml-set": b"metadata: !!set {name}",
    "yaml-directives": b"".join(b"%%TAG !a%d! x\n" % n for n in range(20_000)) + b"--- a\n",
    "yaml-deep-indent": b"".join(b" " * n + b"a:\n" for n in range(2_000)),
}

QUEUE = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"}


@pytest.fixture(autouse=True)
def there(target: Target) -> None:
    """Something for the requests to be about."""
    for path, obj in (
        (MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "there"}}),
        (QUEUES, {**QUEUE, "metadata": {"name": "there"}, "spec": {"resources": {}}}),
    ):
        assert target.ask("POST", path, json.dumps(obj).encode(), JSON)[0] in (201, 409)


def faults(target: Target, way: str, bodies: dict[str, bytes]) -> dict[str, Any]:
    """The bodies that are answered with a failure of our own, or with something that is no Status."""
    method, path, media = WAYS[way]
    found = {}
    for name, body in bodies.items():
        status, answer = target.ask(method, path, body, media)
        shown: Any = json.loads(answer)
        if "its log says why" in shown.get("message", "") or (status >= 400 and shown["kind"] != "Status"):
            found[name] = (status, shown)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_no_body_is_our_own_fault(target: Target, way: str) -> None:
    """Whatever the bytes, the answer is a Status of the 400s, or what the same bytes mean to Kubernetes."""
    assert not faults(target, way, HOSTILE)


VALUES: tuple[Any, ...] = (
    None,
    0,
    -1,
    1.5,
    True,
    "",
    "x",
    "../..",
    "a\u0000b",
    [],
    [None],
    [1],
    [[]],
    [{}],
    {},
    {"": ""},
    {"a": 1},
    2**63,
)
FIELDS = (
    "metadata",
    "metadata.name",
    "metadata.namespace",
    "metadata.labels",
    "metadata.annotations",
    "metadata.finalizers",
    "metadata.ownerReferences",
    "metadata.managedFields",
    "metadata.resourceVersion",
    "metadata.uid",
    "metadata.generation",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.generateName",
    "spec",
    "status",
    "data",
    "target",
    "spec.replicas",
    "spec.names",
    "spec.versions",
    "spec.resourceAttributes",
    "spec.audiences",
    "rules",
    "deleteOptions",
    "preconditions",
    "gracePeriodSeconds",
    "propagationPolicy",
    "dryRun",
    "kind",
    "apiVersion",
)


def with_field(base: dict[str, Any], path: str, value: Any) -> bytes:
    obj = json.loads(json.dumps(base))
    *above, last = path.split(".")
    part = obj
    for step in above:
        part = part.setdefault(step, {})
    part[last] = value
    return json.dumps(obj).encode()


@pytest.mark.parametrize(
    "way", [way for way, (_, _, media) in WAYS.items() if media in (JSON, MERGE, APPLY, STRATEGIC)]
)
def test_no_value_of_a_field_is_our_own_fault(target: Target, way: str) -> None:
    path = WAYS[way][1]
    base: dict[str, Any] = {"metadata": {"name": "there"}}
    if path.startswith(QUEUES):
        base |= {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"}
    if way == "define":
        names = {"kind": "Thing", "plural": "things"}
        base = {
            "metadata": {"name": "things.example.com"},
            "spec": {"group": "example.com", "scope": "Cluster", "names": names},
        }
    bodies = {f"{field}={value!r}": with_field(base, field, value) for field in FIELDS for value in VALUES}
    assert not faults(target, way, bodies)


@pytest.mark.parametrize("way", ["create", "create-yaml", "merge-patch", "json-patch", "apply", "delete"])
@pytest.mark.parametrize("name", ["deep-lists", "deep-objects", "broken", "null-bytes"])
def test_what_cannot_be_read_is_a_bad_request(target: Target, way: str, name: str) -> None:
    method, path, media = WAYS[way]
    status, answer = target.ask(method, path, HOSTILE[name], media)
    assert (status, json.loads(answer)["reason"]) == (400, "BadRequest")


def bomb(levels: int, width: int) -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(["apiVersion: v1", "kind: ConfigMap", "metadata: {name: bomb}", *lines]).encode()


@pytest.mark.parametrize("way", ["create-yaml", "apply", "create-custom-yaml", "apply-custom"])
def test_aliases_do_not_multiply_without_bound(target: Target, way: str) -> None:
    method, path, media = WAYS[way]
    begun = time.monotonic()
    status, answer = target.ask(method, path.replace("/there", "/bomb"), bomb(30, 10), media)
    assert status == 400, answer
    assert time.monotonic() - begun < 30.0


def chunked(total: int) -> Iterator[bytes]:
    block = b"x" * 65536
    for _ in range(total // len(block)):
        yield b"%x\r\n%s\r\n" % (len(block), block)
    yield b"0\r\n\r\n"


@pytest.mark.parametrize("framing", ["content-length", "chunked"])
def test_a_huge_body_is_cut_and_not_read_to_its_end(target: Target, framing: str) -> None:
    total = 100 * MIB
    length = f"Content-Length: {total}" if framing == "content-length" else "Transfer-Encoding: chunked"
    head = f"POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n{length}\r\n\r\n".encode()
    blocks = (b"x" * 65536 for _ in range(total // 65536)) if framing == "content-length" else chunked(total)
    before = target.stack.resident_mib()
    begun = time.monotonic()
    with target.good_client() as good, target.connect(5) as sock:
        sock.sendall(head)
        sent = 0
        try:
            for block in blocks:
                sock.sendall(block)
                sent += len(block)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert sent < 24 * MIB, "the kernel's buffers and the limit, and no more"
    print(
        f"{framing}: cut after {sent / MIB:.1f} MiB in {time.monotonic() - begun:.2f} s, good client {good.worst:.3f} s"
    )
    assert time.monotonic() - begun < 30
    assert target.stack.resident_mib() - before < 40


@pytest.mark.parametrize("framing", ["content-length", "chunked"])
def test_a_body_a_little_too_long_is_told_so(target: Target, framing: str) -> None:
    body = b" " * (3 * MIB + 100_000)
    sent: Any = body if framing == "content-length" else iter([body])
    status, answer = target.ask("POST", MAPS, sent, JSON)
    assert (status, json.loads(answer)["reason"]) == (413, "RequestEntityTooLarge")


def test_a_body_of_just_the_limit_is_read(target: Target) -> None:
    obj = b'{"metadata":{"name":"nothing to see"}}'
    status, answer = target.ask("POST", MAPS, obj + b" " * (3 * MIB - len(obj)), JSON)
    assert (status, json.loads(answer)["reason"]) == (422, "Invalid")


def test_a_request_cut_short_is_not_carried_out(target: Target) -> None:
    """The first half of a YAML body is YAML too."""
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: half\ndata:\n  a: b\n"
    head = (
        f"POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {YAML}\r\nContent-Length: {len(body) + 50}\r\n\r\n"
    )
    with target.connect() as sock:
        sock.sendall(head.encode() + body)
        time.sleep(0.05)
    with target.connect() as sock:
        sock.sendall(f"DELETE {MAPS}/there HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n".encode())
        time.sleep(0.05)
    time.sleep(0.05)
    assert target.ask("GET", f"{MAPS}/half")[0] == 404
    assert target.ask("GET", f"{MAPS}/there")[0] == 200


def test_large_yaml_does_not_stop_the_server(target: Target) -> None:
    """The slowest body there is to read, of the largest size that is read."""
    lines = b"".join(b"  k%d: v\n" % n for n in range(200_000))
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: big}\ndata:\n" + lines
    assert 2 * MIB < len(body) < 3 * MIB
    with target.good_client() as good:
        begun = time.monotonic()
        status, answer = target.ask("POST", MAPS, body, YAML)
        seconds = time.monotonic() - begun
    print(f"{len(body) / MIB:.1f} MiB of YAML: {status} in {seconds:.1f} s, good client {good.worst:.2f} s at worst")
    assert (status, json.loads(answer)["message"]) == (500, "etcdserver: request is too large")
    assert good.median < 0.5
    assert good.worst_computed < 3
    assert target.ask("GET", f"{MAPS}/big")[0] == 404


def test_a_configuration_in_json_is_applied_as_one_in_yaml(target: Target) -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"}}
    path = f"{MAPS}/applied?fieldManager=me"
    assert target.ask("PATCH", path, json.dumps(obj).encode(), APPLY)[0] == 201
    text = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: applied}, data: {a: '2'}}"
    status, answer = target.ask("PATCH", path, text, APPLY)
    assert (status, json.loads(answer)["data"]) == (200, {"a": "2"})
