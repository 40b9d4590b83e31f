"""Names that are drawn: a prefix and characters that spell no words."""

from __future__ import annotations

from kube_apimachinery.clock import Dice

CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_DRAWN, _MAX_PREFIX = 5, 58  # together a DNS label


def generated_name(prefix: str, dice: Dice) -> str:
    """The prefix, cut if need be, and five drawn characters."""
    return prefix[:_MAX_PREFIX] + spelled(dice.getrandbits(40), _DRAWN)


def spelled(number: int, length: int) -> str:
    """A number in these characters, the lowest digit first."""
    letters = []
    for _ in range(length):
        number, index = divmod(number, len(CHARACTERS))
        letters.append(CHARACTERS[index])
    return "".join(letters)
