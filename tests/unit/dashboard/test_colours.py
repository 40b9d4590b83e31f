"""Colours of the drawings: contrast, and whether people who see some colours alike can tell them apart."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from spinney.serve.dashboard.boxes import COLOURS
from spinney.serve.dashboard.page import STATIC

LEAST_DISTANCE = 10.0
SEEN_AS = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
Colour = tuple[float, float, float]


def palettes() -> dict[str, dict[str, Colour]]:
    sheet = (STATIC / "style.css").read_text()
    light, dark = re.findall(r":root \{(.*?)\}", sheet, re.S)
    return {"light": _colours(light), "dark": _colours(dark)}


def _colours(block: str) -> dict[str, Colour]:
    return {name: _linear(value) for name, value in re.findall(r"--([\w-]+): #([0-9a-f]{6});", block)}


def _linear(text: str) -> Colour:
    red, green, blue = (int(text[at : at + 2], 16) / 255 for at in (0, 2, 4))
    return _channel(red), _channel(green), _channel(blue)


def _channel(value: float) -> float:
    return value / 12.92 if value <= 0.03928 else float(((value + 0.055) / 1.055) ** 2.4)


def _contrast(one: Colour, other: Colour) -> float:
    darker, lighter = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def _lab(colour: Colour) -> Colour:
    r, g, b = colour
    x, y, z = (
        _root((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047),
        _root(0.2126 * r + 0.7152 * g + 0.0722 * b),
        _root((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883),
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _root(value: float) -> float:
    return float(value ** (1 / 3)) if value > 0.008856 else 7.787 * value + 16 / 116


def _seen(colour: Colour, sight: tuple[Colour, Colour, Colour]) -> Colour:
    red, green, blue = (
        min(1.0, max(0.0, sum(share * value for share, value in zip(row, colour, strict=True)))) for row in sight
    )
    return red, green, blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_b5_used_and_chosen_have_a_contrast_of_three(scheme: str) -> None:
    colours = palettes()[scheme]
    assert _contrast(colours["used"], colours["gang"]) >= 3
    assert _contrast(colours["free"], colours["gang"]) >= 3


@pytest.mark.parametrize("sight", SEEN_AS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_b5_colours_of_gangs_are_told_apart(scheme: str, sight: str) -> None:
    colours = palettes()[scheme]
    chosen = {name: _lab(_seen(colours[name], SEEN_AS[sight])) for name in [*(f"g{n}" for n in range(COLOURS)), "used"]}
    for one, other in combinations(chosen, 2):
        distance = sum((a - b) ** 2 for a, b in zip(chosen[one], chosen[other], strict=True)) ** 0.5
        assert distance >= LEAST_DISTANCE, (one, other)
