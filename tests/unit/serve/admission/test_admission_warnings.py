"""Warnings become headers."""

from __future__ import annotations

from kube_embedded.server.routing import warning_headers


def test_each_warning_is_told_once_in_order() -> None:
    assert warning_headers(["b", "a", "b", ""]) == ['299 - "b"', '299 - "a"']


def test_quotes_are_escaped() -> None:
    assert warning_headers(['a "b" \\']) == ['299 - "a \\"b\\" \\\\"']


def test_what_cannot_be_a_header_is_left_out() -> None:
    assert warning_headers(["one\r\nX-Other: two", "three"]) == ['299 - "three"']


def test_too_much_is_cut_everywhere() -> None:
    headers = warning_headers(["x" * 3000, "y" * 3000, "z"])
    assert headers == [f'299 - "{"x" * 256}"', f'299 - "{"y" * 256}"', '299 - "z"']


def test_there_is_an_end_to_it() -> None:
    assert len(warning_headers([f"{number:03}" + "x" * 1000 for number in range(100)])) == 16
