"""`python -m spinney.sim.kubernetes`: build the programs of the real control plane and print their directory."""

from __future__ import annotations

import sys

from spinney.sim.kubernetes.assets import AssetsUnavailable, find_or_build_assets


def main() -> int:
    try:
        assets = find_or_build_assets()
    except AssetsUnavailable as unavailable:
        sys.stderr.write(f"error: {unavailable}\n")
        return 1
    sys.stdout.write(f"{assets.directory}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
