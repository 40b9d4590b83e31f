"""What the server itself writes into metadata: times, uids, generated names."""

from __future__ import annotations

import time
from functools import lru_cache

from kube_apimachinery.clock import Dice

_NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATED_PREFIX = 58


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def rfc3339(seconds: float) -> str:
    return _second(int(seconds))


def new_uid(dice: Dice) -> str:
    bits = dice.getrandbits(128)
    bits = bits & ~(0xF << 76) | (0x4 << 76)
    bits = bits & ~(0x3 << 62) | (0x2 << 62)
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def generated_name(prefix: str, dice: Dice) -> str:
    """The prefix, cut if need be, and five characters that spell no words."""
    bits = dice.getrandbits(40)
    suffix = ""
    for _ in range(5):
        bits, index = divmod(bits, len(_NAME_CHARACTERS))
        suffix += _NAME_CHARACTERS[index]
    return prefix[:_MAX_GENERATED_PREFIX] + suffix
