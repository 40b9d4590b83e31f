"""Which form of an answer a client wants: an object, a table, only metadata; JSON or YAML."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from spinney.serve.apiserver.errors import not_acceptable

_SUPPORTED = "application/json, application/yaml"


class Form(Enum):
    OBJECT = "object"
    TABLE = "table"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class Wanted:
    form: Form = Form.OBJECT
    yaml: bool = False
    version: str = "v1"


@lru_cache(maxsize=512)
def negotiate(accept: str) -> Wanted:
    """The first form in the client's list that we can give; protobuf is passed over in favour of what follows it."""
    if not accept:
        return Wanted()
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        options = dict(part.split("=", 1) for part in parameters if "=" in part)
        yaml = media == "application/yaml"
        if media not in ("application/json", "application/yaml", "*/*"):
            continue
        wanted = _form(options.get("as", ""), options.get("g", ""), options.get("v", ""), yaml)
        if wanted is not None:
            return wanted
    raise not_acceptable(f"only the following media types are accepted: {_SUPPORTED}")


def _form(kind: str, group: str, version: str, yaml: bool) -> Wanted | None:
    if not kind:
        return Wanted(Form.OBJECT, yaml)
    if group != "meta.k8s.io" or version not in ("v1", "v1beta1"):
        return None
    if kind == "Table":
        return Wanted(Form.TABLE, yaml, version)
    if kind in ("PartialObjectMetadata", "PartialObjectMetadataList"):
        return Wanted(Form.METADATA, yaml, version)
    return None
