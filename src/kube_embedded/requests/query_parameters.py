"""Checks of query parameters, worded as the real server words them."""

from __future__ import annotations

from kube_apimachinery.field_errors import ErrorType, FieldError, forbidden, invalid, not_supported
from kube_embedded.base.errors import ApiError, bad_request
from kube_embedded.base.errors import invalid as invalid_object

_META = "meta.k8s.io"
_MAX_MANAGER = 128
_MATCHES = ("Exact", "NotOlderThan")
_MAX_DIGITS = 19
_MODES = ("", "Ignore", "Strict", "Warn")


def check_write(query: dict[str, str], options: str) -> None:
    """dryRun, fieldManager and fieldValidation of a create, update or patch."""
    if not query:
        return
    errors: list[FieldError] = []
    manager = query.get("fieldManager", "")
    if len(manager) > _MAX_MANAGER:
        errors.append(
            FieldError("fieldManager", ErrorType.TOO_LONG, manager, f"may not be more than {_MAX_MANAGER} bytes")
        )
    elif not manager.isprintable():
        errors.append(invalid("fieldManager", manager, "should only contain printable characters"))
    if query.get("fieldValidation", "") not in _MODES:
        errors.append(not_supported("fieldValidation", query["fieldValidation"], _MODES))
    if "dryRun" in query and query["dryRun"] != "All":
        errors.append(not_supported("dryRun", [query["dryRun"]], ("All",)))
    if errors:
        raise invalid_object(_META, options, "", errors)


def check_list(query: dict[str, str]) -> None:
    """resourceVersionMatch and sendInitialEvents of a list."""
    match, version = query.get("resourceVersionMatch"), query.get("resourceVersion")
    errors: list[FieldError] = []
    if query.get("sendInitialEvents"):
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if match:
        if not version:
            why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            errors.append(forbidden("resourceVersionMatch", why))
        elif query.get("continue"):
            why = "resourceVersionMatch is forbidden when continue is provided"
            errors.append(forbidden("resourceVersionMatch", why))
        elif match not in _MATCHES:
            errors.append(not_supported("resourceVersionMatch", match, (*_MATCHES, "")))
        elif match == "Exact" and version == "0":
            why = 'resourceVersionMatch "Exact" is forbidden for resourceVersion "0"'
            errors.append(forbidden("resourceVersionMatch", why))
    _refuse(errors)


def check_watch(query: dict[str, str]) -> None:
    """The same for a watch, with its timeout and the version to start from."""
    match, initial = query.get("resourceVersionMatch"), query.get("sendInitialEvents")
    errors: list[FieldError] = []
    if match and initial is None:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        errors.append(forbidden("resourceVersionMatch", why))
    elif initial is not None and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(forbidden("resourceVersionMatch", why))
    _refuse(errors)
    parse_int(query.get("timeoutSeconds"))
    version = query.get("resourceVersion")
    if version and not is_version(version):
        raise ApiError(
            500,
            "",
            f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax',
        )


def is_version(text: str) -> bool:
    """Whether this can be a resourceVersion: an unsigned number of 64 bits."""
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def parse_int(text: str | None) -> int:
    """A number of 64 bits in a query; 0 where there is none."""
    if not text:
        return 0
    try:
        value = int(text) if len(text) <= _MAX_DIGITS + 1 else 2**63
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    if not -(2**63) <= value < 2**63:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value


def _refuse(errors: list[FieldError]) -> None:
    if errors:
        raise invalid_object(_META, "ListOptions", "", errors)
