"""Quantities: exact, canonical, and as strict as Kubernetes."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from kube_apimachinery import quantity

CANONICAL = {
    "1000m": "1",
    "1024Mi": "1Gi",
    "1.5Gi": "1536Mi",
    "0.5": "500m",
    "1000": "1k",
    "1024": "1024",
    "100000": "100k",
    "1e3": "1e3",
    "1000e0": "1e3",
    "12e-3": "12e-3",
    "-1500m": "-1500m",
    "0": "0",
    "0Gi": "0",
    "1023Ki": "1023Ki",
    "512": "512",
    "0.5Ki": "512",
    "0.0001Ki": "102400u",
    "0.1n": "1n",
    "+5": "5",
    ".5": "500m",
    "5.": "5",
    "9Ei": "9223372036854775807",
    "1000E": "1000E",
}


@pytest.mark.parametrize(("text", "stored"), CANONICAL.items())
def test_a_quantity_is_stored_in_one_spelling(text: str, stored: str) -> None:
    assert quantity.canonical(text) == stored


@pytest.mark.parametrize("text", sorted(CANONICAL))
def test_the_canonical_spelling_is_its_own(text: str) -> None:
    once = quantity.canonical(text)
    assert quantity.canonical(once) == once
    assert quantity.compare(once, text) == 0


@pytest.mark.parametrize(("number", "stored"), [(2, "2"), (0.25, "250m"), (1500, "1500"), (1e3, "1k")])
def test_numbers_are_quantities_too(number: float, stored: str) -> None:
    assert quantity.canonical(number) == stored


@pytest.mark.parametrize(
    "text", ["1.5e2Mi", "", "abc", "1 Gi", "1GiB", "1i", "1.2.3", "1K", "0x1", "1e", "e3", "--1", "1e9999999999", "١"]
)
def test_what_kubernetes_refuses_is_refused(text: str) -> None:
    with pytest.raises(quantity.QuantityError):
        quantity.canonical(text)
    assert not quantity.is_valid(text)


def test_a_bool_is_not_a_quantity() -> None:
    assert not quantity.is_valid(True)


def test_demand_is_rounded_up_and_capacity_down() -> None:
    assert quantity.base_units("1500m", round_up=True) == 2
    assert quantity.base_units("1500m", round_up=False) == 1
    assert quantity.base_units("-1500m", round_up=True) == -2
    assert quantity.base_units("-1500m", round_up=False) == -1


def test_less_than_a_milli_counts_as_one() -> None:
    assert quantity.milli("1n") == 1


def test_amounts_are_written_back_in_canonical_form() -> None:
    assert quantity.format_milli(1500) == "1500m"
    assert quantity.format_milli(2000) == "2"
    assert quantity.format_bytes(2**30) == "1Gi"
    assert quantity.format_bytes(1000) == "1000"


numerals = st.tuples(
    st.sampled_from(["", "-", "+"]), st.integers(0, 10**6).map(str), st.one_of(st.none(), st.integers(0, 999).map(str))
).map(lambda parts: parts[0] + parts[1] + ("" if parts[2] is None else f".{parts[2]}"))
suffixes = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti"])
exponents = st.sampled_from(["e3", "E2", "e-2", "e+1"])


def rounded_milli(amount: Decimal) -> int:
    milli = amount * 1000
    whole = int(milli)
    rounded = whole + int(milli.copy_sign(1) > abs(whole)) * (-1 if milli < 0 else 1)
    return max(-quantity.LARGEST, min(rounded, quantity.LARGEST))


@given(numerals, suffixes)
def test_every_valid_quantity_has_the_value_that_the_official_client_reads(number: str, suffix: str) -> None:
    assert quantity.milli(number + suffix) == rounded_milli(parse_quantity(number + suffix))  # type: ignore[no-untyped-call]


@given(numerals, exponents)
def test_exponents_are_powers_of_ten(number: str, exponent: str) -> None:
    """The official client does not read them."""
    assert quantity.milli(number + exponent) == rounded_milli(Decimal(number + exponent))


def test_a_binary_quantity_ends_where_64_bits_end() -> None:
    assert quantity.base_units("8Ei", round_up=True) == 2**63 - 1


@given(numerals, suffixes | exponents)
def test_canonical_form_keeps_the_value(number: str, suffix: str) -> None:
    assert quantity.compare(quantity.canonical(number + suffix), number + suffix) == 0


HOSTILE = {
    "5,000 digits": ("9" * 5000, quantity.LARGEST),
    "a million digits": ("9" * 10**6, quantity.LARGEST),
    "a million digits below zero": ("-" + "9" * 10**6, -quantity.LARGEST),
    "a million digits of mebibytes": ("9" * 10**6 + "Mi", quantity.LARGEST),
    "an exponent of 400": ("1e400", quantity.LARGEST),
    "an exponent of 20,000": ("1e20000", quantity.LARGEST),
    "the largest exponent": ("1e2147483647", quantity.LARGEST),
    "the smallest exponent": ("1E-2147483647", 1),
    "an exponent with a million zeros": ("2e" + "0" * 10**6 + "1", 20),
    "a million places": ("0." + "0" * 10**6 + "1", 1),
    "a million nines behind the point": ("0." + "9" * 10**6, 1),
    "more than 64 bits": ("9223372036854775808", quantity.LARGEST),
    "a number of 5,000 digits": (10**5000, quantity.LARGEST),
    "a large float": (1e300, quantity.LARGEST),
    "zero to the most": ("0e2147483647", 0),
}


@pytest.mark.parametrize(("written", "units"), HOSTILE.values(), ids=list(HOSTILE))
def test_an_amount_is_bounded_whatever_is_written(written: str | int | float, units: int) -> None:
    assert quantity.base_units(written, round_up=True) == units
    assert abs(quantity.milli(written)) <= quantity.LARGEST
    assert quantity.is_valid(written)


@pytest.mark.parametrize("tail", ["x", "..", "ee", "e1.", "+", "m1", "Kii"])
def test_a_long_text_that_is_no_quantity_is_refused_in_linear_time_and_in_few_words(tail: str) -> None:
    began = time.process_time()
    with pytest.raises(quantity.QuantityError) as refused:
        quantity.milli("9" * 10**6 + tail)
    assert time.process_time() - began < 1.0
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("stored", ["9" * 5000, "9" * 5000 + "m", "100e4998", "10e99999"])
def test_what_a_real_server_stores_is_its_own_canonical_form(stored: str) -> None:
    assert quantity.canonical(stored) == stored


def test_beyond_what_is_read_quantities_are_still_compared_exactly() -> None:
    most = "9" * 5000
    assert quantity.compare(most, most[:-1] + "8") > 0
    assert quantity.compare("-" + most, "-" + most[:-1] + "8") < 0
    assert quantity.compare("1e5000", most) > 0
    assert quantity.compare("-1", "0") < 0 < quantity.compare("1n", "-" + most)
    assert quantity.compare("-0", "0") == 0
