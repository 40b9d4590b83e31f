"""What the server itself writes into metadata beside times and names: uids."""

from __future__ import annotations

from kube_apimachinery.clock import Dice


def new_uid(dice: Dice) -> str:
    bits = dice.getrandbits(128)
    bits = bits & ~(0xF << 76) | (0x4 << 76)
    bits = bits & ~(0x3 << 62) | (0x2 << 62)
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
