"""What is being asked for, in the words of RBAC: a verb on a resource, or a verb on a path.

And whether a request over loopback was sent by somebody on this machine, which decides nothing about who that is.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from kube_embedded.base import errors
from kube_embedded.base.errors import ApiError
from kube_embedded.base.identity import Identity


def is_local_request(headers: Mapping[str, str]) -> bool:
    """Whether a request over loopback was meant for us: a page in a browser may be somebody else's words.

    A page of another site says so by its Origin, or by a Host that was made to point here.
    """
    if "origin" in headers:
        return False
    return _is_local(headers.get("host", ""))


@lru_cache(maxsize=256)
def _is_local(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Attributes:
    """A non-resource request has a path and no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def on_resource(
    verb: str, group: str, resource: str, subresource: str = "", namespace: str = "", name: str = ""
) -> Attributes:
    """A Namespace counts as being in itself, so that a role inside it can grant access to it."""
    if resource == "namespaces" and not group and not namespace:
        namespace = name
    return Attributes(verb, group, resource, subresource, namespace, name)


def on_path(method: str, path: str) -> Attributes:
    return Attributes(method.lower(), path=path)


def refused(who: Identity, asked: Attributes, reason: str = "") -> ApiError:
    """The 403 that says who may not do what where."""
    if asked.path:
        error = errors.forbidden(
            "", "", "", _with(f'User "{who.name}" cannot {asked.verb} path "{asked.path}"', reason)
        )
        error.message = error.message.removeprefix(" is ")
        error.details = {}
        return error
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    what = f'resource "{asked.full_resource}" in API group "{asked.group}"'
    why = _escaped(f'User "{who.name}" cannot {asked.verb} {what} {where}')
    return errors.forbidden(asked.group, asked.resource, asked.name, _with(why, reason))


def _with(text: str, reason: str) -> str:
    return f"{text}: {reason}" if reason else text


def _escaped(text: str) -> str:
    """Names are the caller's words: they must not look like HTML to a browser."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
