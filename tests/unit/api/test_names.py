"""Names, label keys and label values with the words of Kubernetes."""

from __future__ import annotations

import pytest

from kube_apimachinery import name_validation


@pytest.mark.parametrize("name", ["a", "my-name", "123-abc", "a" * 63])
def test_a_good_label_has_no_complaints(name: str) -> None:
    assert name_validation.dns_label(name) == []


def test_a_bad_label_is_described_with_the_pattern() -> None:
    assert name_validation.dns_label("My_Name") == [
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
        "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    ]


def test_dots_in_a_label_are_named_as_such() -> None:
    assert name_validation.dns_label("a.b") == ["must not contain dots"]


def test_a_long_label_is_too_long() -> None:
    assert name_validation.dns_label("a" * 64) == ["must be no more than 63 characters"]


@pytest.mark.parametrize("name", ["a", "example.com", "a-b.c-d"])
def test_a_good_subdomain_has_no_complaints(name: str) -> None:
    assert name_validation.dns_subdomain(name) == []


@pytest.mark.parametrize("name", ["", "A.b", "-a", "a..b", "a.", "a\n"])
def test_a_bad_subdomain_is_refused(name: str) -> None:
    assert name_validation.dns_subdomain(name)[0].startswith("a lowercase RFC 1123 subdomain must consist of")


def test_a_service_name_starts_with_a_letter() -> None:
    assert name_validation.dns_1035_label("a1") == []
    assert name_validation.dns_1035_label("1a")[0].startswith("a DNS-1035 label must consist of")


@pytest.mark.parametrize("key", ["app", "kubernetes.io/hostname", "nvidia.com/gpu.clique", "a_b", "A" * 63])
def test_a_good_label_key_has_no_complaints(key: str) -> None:
    assert name_validation.qualified_name(key) == []


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("/a", "prefix part must be non-empty"),
        ("a/", "name part must be non-empty"),
        ("a/b/c", "a valid label key must consist of"),
        ("A_/b", "prefix part a lowercase RFC 1123 subdomain must consist of"),
        ("a/" + "b" * 64, "name part must be no more than 63 bytes"),
        ("-a", "name part must consist of alphanumeric characters"),
    ],
)
def test_a_bad_label_key_is_described(key: str, complaint: str) -> None:
    assert name_validation.qualified_name(key)[0].startswith(complaint)


def test_a_label_value_may_be_empty_but_not_start_with_a_hyphen() -> None:
    assert name_validation.label_value("") == []
    assert name_validation.label_value("-a")[0].startswith("a valid label must be an empty string or consist of")
    assert name_validation.label_value("é" * 32)[0] == "must be no more than 63 bytes"


def test_a_path_segment_holds_no_slash() -> None:
    assert name_validation.path_segment("grove.io:pcs:a") == []
    assert name_validation.path_segment("a/b%") == ["may not contain '/'", "may not contain '%'"]
    assert name_validation.path_segment("..") == ["may not be '..'"]


def test_environment_names_hold_no_equals_sign() -> None:
    assert name_validation.env_name("MY.ENV-1") == []
    assert name_validation.env_name("A=B") != []
    assert name_validation.env_name("") == ["environment variable name must be non-empty"]


def test_config_keys_do_not_climb() -> None:
    assert name_validation.config_key("a.yaml") == []
    assert name_validation.config_key("..a") == ["must not start with '..'"]
