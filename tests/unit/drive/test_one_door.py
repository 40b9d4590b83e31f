"""Only the door writes: no other module of drive names a method that changes anything, or sends one it was given."""

from __future__ import annotations

import ast
from pathlib import Path

import spinney.drive

ROOT = Path(spinney.drive.__file__).parent
DOOR = ROOT / "apply" / "door.py"
SENDERS = {
    ROOT / "client" / "http" / name for name in ("retries.py", "http_transport.py")
}  # they pass on the method of a call
MUTATING = {"POST", "PUT", "PATCH", "DELETE"}
SESSION_METHODS = {"post", "put", "patch", "delete"}


def modules() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text())) for path in sorted(ROOT.rglob("*.py"))]


def test_only_the_door_names_a_mutating_method() -> None:
    named = {
        path
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.upper() in MUTATING
        if not (path.parent.name == "apply" and node.value.islower())
    }
    assert named == {DOOR}


def test_only_the_call_and_the_transports_send_requests() -> None:
    senders = {
        path
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "request"
    }
    assert senders == SENDERS


def test_the_http_session_is_not_used_to_write_past_the_door() -> None:
    tree = ast.parse((ROOT / "client" / "http" / "http_transport.py").read_text())
    used = {
        node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert not used & SESSION_METHODS
