from __future__ import annotations

import pytest

from kube_embedded.schema.formats import effective, string_check

ROWS = [
    ("date-time", "2020-01-01T00:00:00Z", "2020-01-01T25:00:00Z"),
    ("date-time", "2020-01-01T00:00:00.5+02:00", "2020-01-01 00:00:00Z"),
    ("date", "2020-02-29", "2021-02-29"),
    ("duration", "1h30m", "x"),
    ("duration", "3 days", "5"),
    ("byte", "aGk=", "aGk"),
    ("ipv4", "1.2.3.4", "1.2.3.256"),
    ("ipv6", "::1", "1.2.3.4"),
    ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
    ("cidr", "::1/128", "10.0.0.0/" + "9" * 5000),
    ("mac", "01:23:45:67:89:ab", "01:23"),
    ("uuid", "123E4567e89b12d3a456426614174000", "123"),
    ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
    ("uri", "http://a/b", "a"),
    ("uri", "/path", ""),
    ("email", "a@b.c", "a"),
    ("hostname", "a-b.example.com", "-a"),
    ("isbn10", "0321751043", "0321751044"),
    ("isbn13", "978-0321751041", "978-0321751042"),
    ("creditcard", "4111 1111 1111 1111", "4111111111111112"),
    ("ssn", "123-45-6789", "123"),
    ("hexcolor", "#ffF", "#ffff"),
    ("rgbcolor", "rgb(1,2,255)", "rgb(1,2,256)"),
    ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
    ("k8s-short-name", "a-1", "A"),
    ("k8s-long-name", "a.b-c", "a..b"),
]


@pytest.mark.parametrize(("name", "good", "bad"), ROWS, ids=[f"{row[0]} {row[1]}" for row in ROWS])
def test_a_format_tells_good_from_bad(name: str, good: str, bad: str) -> None:
    check = string_check(name)
    assert check is not None
    assert check(good)
    assert not check(bad)


@pytest.mark.parametrize(
    ("type_name", "format_name", "counts"),
    [
        ("string", "date-time", "date-time"),
        ("string", "made-up", ""),
        ("integer", "int32", "int32"),
        ("integer", "uint8", ""),
        ("number", "double", "double"),
        ("object", "date", ""),
    ],
)
def test_a_format_counts_only_for_its_type(type_name: str, format_name: str, counts: str) -> None:
    assert effective(type_name, format_name) == counts
