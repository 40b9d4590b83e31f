"""The embedded server as a process, with the bug that the environment names planted in it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from cluster_kit import embedded_host
from drills.planted import plant

PLANT = "SPINNEY_PLANT"

if __name__ == "__main__":
    plant(os.environ[PLANT])
    asyncio.run(embedded_host.main(Path(sys.argv[1])))
