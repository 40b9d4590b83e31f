"""Charts: marks at round numbers, points where they belong, names that cannot break out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from spinney.sim.replay.plots import Axis, Curve, Panel, draw, even_marks

SQUARE = Axis(0.0, 10.0, ((0.0, "0"), (10.0, "10")))


@pytest.mark.parametrize(
    ("high", "marks"),
    [
        (10.0, (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)),
        (7.0, (0.0, 2.0, 4.0, 6.0, 8.0)),
        (1234.0, (0.0, 250.0, 500.0, 750.0, 1000.0, 1250.0)),
        (0.0, (0.0, 1.0)),
    ],
)
def test_marks_are_round_and_reach_the_top(high: float, marks: tuple[float, ...]) -> None:
    assert even_marks(high) == pytest.approx(marks)


def _path(curve: Curve) -> str:
    drawn = draw("t", "a", ["one"], [Panel("p", SQUARE, SQUARE, (curve,))])
    found = re.findall(r'<path class="c0" d="(M[^"]*)"', drawn)
    return str(found[-1])


def test_a_curve_goes_from_corner_to_corner() -> None:
    assert _path(Curve(((0.0, 0.0), (10.0, 10.0)))) == "M64.0 288.0L736.0 98.0"


def test_a_curve_of_steps_stays_level_until_the_next_point() -> None:
    assert _path(Curve(((0.0, 0.0), (10.0, 10.0)), steps=True)) == "M64.0 288.0L736.0 288.0L736.0 98.0"


def test_names_are_text_and_nothing_else() -> None:
    hostile = '</text><script>alert("1")</script>&'
    drawn = draw(hostile, hostile, [hostile], [Panel(hostile, SQUARE, SQUARE, (Curve(()),))] * 2)
    root = ElementTree.fromstring(drawn)
    assert not [part for part in root.iter() if part.tag.endswith("script")]
    assert [part.text for part in root.iter() if part.text == hostile]
