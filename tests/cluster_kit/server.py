"""An API server as other people's programs see it: URLs, bearer tokens, JSON, kubectl.

Never imports the project's own client: a bug shared by client and server would hide itself.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3
import yaml

DEADLINE_S = 150.0
"""So long is waited for what has no deadline of its own."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.3
PATCH_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer; `body` is parsed JSON where the server sent JSON, else text."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        if "json" in self.headers.get("Content-Type", ""):
            return json.loads(self.raw)
        return self.raw.decode(errors="replace")

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        body = self.body
        return str(body.get("message", "")) if isinstance(body, dict) else str(body)

    @property
    def causes(self) -> list[tuple[str, str]]:
        """(reason, field) of every cause, sorted."""
        causes = self.body.get("details", {}).get("causes", [])
        return sorted((cause.get("reason", ""), cause.get("field", "")) for cause in causes)

    @property
    def warnings(self) -> list[str]:
        """Texts of the Warning headers."""
        found = self.headers.getlist("Warning") if hasattr(self.headers, "getlist") else []
        return [text.split('"', 1)[1].rsplit('"', 1)[0].replace('\\"', '"') for text in found]

    def ok(self, *codes: int) -> Any:
        """The body, after checking that the request was accepted."""
        expected = codes or (200, 201, 202)
        assert self.status in expected, f"expected {expected}, got {self.status}: {self.raw[:2000]!r}"
        return self.body

    def refused(self, code: int, reason: str | None = None, *fragments: str) -> Reply:
        """Check that this is a Status with this code and reason, and with these fragments in its message."""
        assert self.status == code, f"expected {code} {reason}, got {self.status}: {self.raw[:2000]!r}"
        body = self.body
        assert body["kind"] == "Status"
        assert body["apiVersion"] == "v1"
        assert body["status"] == "Failure"
        assert body["code"] == code
        if reason is not None:
            assert body.get("reason", "") == reason, body
        for fragment in fragments:
            assert fragment in body["message"], f"expected {fragment!r} in {body['message']!r}"
        return self


class Watch:
    """An open watch; events come with a deadline."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response
        self._lines = self._split()

    def _split(self) -> Iterator[dict[str, Any]]:
        pending = b""
        for chunk in self._response.stream(65536, decode_content=True):
            pending += chunk
            *lines, pending = pending.split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)

    def next(self) -> dict[str, Any]:
        """The next event; a silent watch fails the test at the socket's read timeout."""
        return next(self._lines)

    def take(self, count: int) -> list[dict[str, Any]]:
        return [self.next() for _ in range(count)]

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """Events up to and including the first wanted one."""
        seen = []
        for event in self._lines:
            seen.append(event)
            if wanted(event):
                return seen
        raise AssertionError(f"the watch ended before the wanted event; saw {seen}")

    def rest(self) -> list[dict[str, Any]]:
        """Everything until the server ends the watch."""
        return list(self._lines)


@dataclass(slots=True)
class Server:
    """One of the two servers under test."""

    kind: str
    url: str
    kubeconfig: Path
    authority: Path | None
    tokens: Mapping[str, str]
    kubectl_program: Path | None
    scratch: Path
    expire_history: Callable[[int], None]
    """Make the server forget everything before this revision."""
    _pool: urllib3.PoolManager = field(init=False)
    _kubeconfigs: dict[str, Path] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        trust: dict[str, Any] = {"ca_certs": str(self.authority)} if self.authority else {}
        self._pool = urllib3.PoolManager(maxsize=8, retries=False, timeout=urllib3.Timeout(30, 90), **trust)

    def token(self, user: str) -> str:
        return self.tokens[user]

    def http(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
        user: str | None = "admin",
    ) -> Reply:
        """One request; `body` is sent as JSON, `raw` as it is."""
        sent = self._headers(headers, user)
        if body is not None:
            raw = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        answer = self._pool.request(method, self._address(path, query), body=raw, headers=sent)
        return Reply(answer.status, answer.headers, answer.data)

    @contextmanager
    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        user: str | None = "admin",
    ) -> Iterator[Watch]:
        answer = self._pool.request(
            "GET",
            self._address(path, query),
            headers=self._headers(headers, user),
            preload_content=False,
            timeout=urllib3.Timeout(30, DEADLINE_S),
        )
        try:
            yield Watch(answer)
        finally:
            answer.close()
            answer.release_conn()

    def kubectl(
        self,
        *arguments: str,
        input: str | None = None,
        check: bool = True,
        user: str = "admin",
        environ: Mapping[str, str] | None = None,
        timeout: float = 180,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl with a home of its own; the test is skipped where there is none."""
        if self.kubectl_program is None:
            pytest.skip("no kubectl: neither built nor installed")
        done = subprocess.run(
            self.kubectl_command(*arguments, user=user),
            input=input,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(self.scratch), **(environ or {})},
        )
        if check:
            assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def kubectl_command(self, *arguments: str, user: str = "admin") -> list[str]:
        return [str(self.kubectl_program), "--kubeconfig", str(self.kubeconfig_of(user)), *arguments]

    def kubeconfig_of(self, user: str) -> Path:
        """The kubeconfig of another user: the administrator's with another token."""
        if user == "admin":
            return self.kubeconfig
        if user not in self._kubeconfigs:
            content = yaml.safe_load(self.kubeconfig.read_text())
            content["users"][0]["user"] = {"token": self.tokens[user]}
            path = self.scratch / f"kubeconfig-{user}"
            path.write_text(yaml.safe_dump(content))
            self._kubeconfigs[user] = path
        return self._kubeconfigs[user]

    def close(self) -> None:
        self._pool.clear()

    def _headers(self, headers: Mapping[str, str] | None, user: str | None) -> dict[str, str]:
        sent = dict(headers or {})
        if user is not None:
            sent.setdefault("Authorization", f"Bearer {self.tokens.get(user, user)}")
        return sent

    def _address(self, path: str, query: Mapping[str, Any] | None) -> str:
        return f"{self.url}{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")


def eventually(check: Callable[[], Any], what: str = "", deadline_s: float | None = None) -> Any:
    """The first true value of `check`; assertion errors and fields that are missing inside it count as not yet.

    It is asked less and less often, so that looking does not hold up what is looked at.
    """
    allowed_s = DEADLINE_S if deadline_s is None else deadline_s
    until, pause_s = time.monotonic() + allowed_s, FIRST_PAUSE_S
    while True:
        last: object = None
        try:
            value = check()
            if value:
                return value
            last = value
        except (AssertionError, KeyError) as error:
            last = error
        assert time.monotonic() < until, f"not within {allowed_s} s: {what or 'the condition'} ({last!r})"
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.3, LONGEST_PAUSE_S)
