"""What Kubernetes accepts as a name, a label key or a label value, and its words for what it does not.

Every function returns the complaints, in order; none means that the text is fine.
"""

from __future__ import annotations

import re

LABEL_LIMIT = 63
SUBDOMAIN_LIMIT = 253
QUALIFIED_NAME_LIMIT = SUBDOMAIN_LIMIT + 1 + LABEL_LIMIT

DNS_LABEL_PATTERN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN_PATTERN = rf"{DNS_LABEL_PATTERN}(\.{DNS_LABEL_PATTERN})*"
DNS_1035_PATTERN = "[a-z]([-a-z0-9]*[a-z0-9])?"
KEY_PATTERN = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
VALUE_PATTERN = f"({KEY_PATTERN})?"
CONFIG_KEY_PATTERN = "[-._a-zA-Z0-9]+"

_LABEL = re.compile(DNS_LABEL_PATTERN)
_SUBDOMAIN = re.compile(SUBDOMAIN_PATTERN)
_DNS_1035 = re.compile(DNS_1035_PATTERN)
_KEY = re.compile(KEY_PATTERN)
_VALUE = re.compile(VALUE_PATTERN)
_CONFIG_KEY = re.compile(CONFIG_KEY_PATTERN)

_EDGES = "and must start and end with an alphanumeric character"
_LABEL_TEXT = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_EDGES}"
_SUBDOMAIN_TEXT = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_EDGES}"
)
_DNS_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_KEY_TEXT = f"must consist of alphanumeric characters, '-', '_' or '.', {_EDGES}"
_VALUE_TEXT = f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_EDGES}"
_CONFIG_KEY_TEXT = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_ENV_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def dns_label(value: str) -> list[str]:
    """A part of a host name: up to 63 lower-case letters, digits and hyphens."""
    complaints = [_too_long(LABEL_LIMIT)] if _length(value) > LABEL_LIMIT else []
    if _LABEL.fullmatch(value):
        return complaints
    if _SUBDOMAIN.fullmatch(value):
        return [*complaints, "must not contain dots"]
    return [*complaints, _mismatch(_LABEL_TEXT, DNS_LABEL_PATTERN, "my-name", "123-abc")]


def dns_subdomain(value: str) -> list[str]:
    """A host name: what most objects are named."""
    complaints = [_too_long(SUBDOMAIN_LIMIT)] if _length(value) > SUBDOMAIN_LIMIT else []
    if not _SUBDOMAIN.fullmatch(value):
        complaints.append(_mismatch(_SUBDOMAIN_TEXT, SUBDOMAIN_PATTERN, "example.com"))
    return complaints


def dns_1035_label(value: str) -> list[str]:
    """The older rule, for Services: the first character is a letter."""
    complaints = [_too_long(LABEL_LIMIT)] if _length(value) > LABEL_LIMIT else []
    if not _DNS_1035.fullmatch(value):
        complaints.append(_mismatch(_DNS_1035_TEXT, DNS_1035_PATTERN, "my-name", "abc-123"))
    return complaints


def path_segment(value: str, prefix: bool = False) -> list[str]:
    """A name that must only fit into a URL path (RBAC objects); a generateName is a prefix of one."""
    if not prefix and value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{mark}'" for mark in ("/", "%") if mark in value]


def qualified_name(value: str) -> list[str]:
    """A label key, annotation key, finalizer or resource name, with or without `prefix/`."""
    parts = value.split("/")
    if len(parts) > 2:
        shown = _mismatch(_KEY_TEXT, KEY_PATTERN, "MyName", "my.name", "123-abc")
        return [f"a valid label key {shown} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    return (_prefix_part(parts[0]) if len(parts) == 2 else []) + _name_part(parts[-1])


def label_value(value: str) -> list[str]:
    """The value of a label; empty is allowed."""
    complaints = [_too_many_bytes(LABEL_LIMIT)] if _length(value) > LABEL_LIMIT else []
    if not _VALUE.fullmatch(value):
        complaints.append(_mismatch(_VALUE_TEXT, VALUE_PATTERN, "MyValue", "my_value", "12345"))
    return complaints


def env_name(value: str) -> list[str]:
    """The name of an environment variable."""
    complaints = [] if value else ["environment variable name must be non-empty"]
    if not (value.isascii() and value.isprintable()) or "=" in value:
        complaints.append(_ENV_TEXT)
    return complaints


def config_key(value: str) -> list[str]:
    """A key of a ConfigMap or Secret."""
    complaints = [_too_long(SUBDOMAIN_LIMIT)] if _length(value) > SUBDOMAIN_LIMIT else []
    if not _CONFIG_KEY.fullmatch(value):
        complaints.append(_mismatch(_CONFIG_KEY_TEXT, CONFIG_KEY_PATTERN, "key.name", "KEY_NAME", "key-name"))
    if value in (".", ".."):
        complaints.append(f"must not be '{value}'")
    elif value.startswith(".."):
        complaints.append("must not start with '..'")
    return complaints


def _prefix_part(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    complaints = [_too_many_bytes(SUBDOMAIN_LIMIT)] if _length(prefix) > SUBDOMAIN_LIMIT else []
    if not _SUBDOMAIN.fullmatch(prefix):
        complaints.append(_mismatch(_SUBDOMAIN_TEXT, SUBDOMAIN_PATTERN, "example.com"))
    return [f"prefix part {complaint}" for complaint in complaints]


def _name_part(name: str) -> list[str]:
    complaints = []
    if not name:
        complaints.append("name part must be non-empty")
    elif _length(name) > LABEL_LIMIT:
        complaints.append(f"name part {_too_many_bytes(LABEL_LIMIT)}")
    if not _KEY.fullmatch(name):
        complaints.append(f"name part {_mismatch(_KEY_TEXT, KEY_PATTERN, 'MyName', 'my.name', '123-abc')}")
    return complaints


def _length(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode())


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"


def _too_many_bytes(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _mismatch(text: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"
