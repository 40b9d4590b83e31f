"""The conversion that a definition asks for: none, or a webhook with its address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from spinney.api import name_validation
from spinney.api.field_errors import FieldError, forbidden, invalid, not_supported, required

_KNOWN_REVIEWS = ("v1", "v1beta1")
_FORM = "; desired format: https://host[/path]"


def conversion_errors(conversion: dict[str, Any], path: str) -> Iterator[FieldError]:
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook") or {}
    config, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if not strategy:
        yield required(f"{path}.strategy")
    elif strategy not in ("None", "Webhook"):
        yield not_supported(f"{path}.strategy", strategy, ("None", "Webhook"))
    if strategy == "Webhook":
        yield from _config_errors(config, f"{path}.webhookClientConfig")
        yield from _review_errors(reviews, f"{path}.conversionReviewVersions")
        return
    words = "should not be set when strategy is not set to Webhook"
    if config is not None:
        yield forbidden(f"{path}.webhookClientConfig", words)
    if reviews:
        yield forbidden(f"{path}.conversionReviewVersions", words)


def _config_errors(config: dict[str, Any] | None, path: str) -> Iterator[FieldError]:
    if config is None:
        yield required(path, "required when strategy is set to Webhook")
        return
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url_errors(url, f"{path}.url")
    else:
        assert service is not None
        yield from _service_errors(service, f"{path}.service")


def _url_errors(url: str, path: str) -> Iterator[FieldError]:
    parts = urlsplit(url)
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not parts.netloc:
        yield invalid(path, parts.netloc, f"host must be specified{_FORM}")
    if parts.username is not None:
        yield invalid(path, parts.username, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def _service_errors(service: dict[str, Any], path: str) -> Iterator[FieldError]:
    for key in ("name", "namespace"):
        if not service.get(key):
            yield required(f"{path}.{key}")
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        yield invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive")


def _review_errors(reviews: list[str], path: str) -> Iterator[FieldError]:
    if not reviews:
        yield required(path)
        return
    for index, review in enumerate(reviews):
        if review in reviews[:index]:
            yield invalid(f"{path}[{index}]", review, "duplicate version")
            continue
        for complaint in name_validation.dns_1035_label(review):
            yield invalid(f"{path}[{index}]", review, complaint)
    if not set(reviews) & set(_KNOWN_REVIEWS):
        yield invalid(path, reviews, f"must include at least one of {', '.join(_KNOWN_REVIEWS)}")
