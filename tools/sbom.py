"""The bill of materials of the image (CycloneDX 1.6, JSON): what is installed, with the hashes of the lock file.

python tools/sbom.py uv.lock /opt/spinney/lib/python3.11/site-packages > sbom.cdx.json
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

Package = dict[str, Any]
ROOT = "spinney"


def bill(lock: str, installed: dict[str, str]) -> dict[str, Any]:
    """`installed`: versions by name. One that was not locked is refused: nobody knows where it comes from."""
    locked = {(package["name"], package["version"]): package for package in tomllib.loads(lock)["package"]}
    strangers = sorted(set(installed.items()) - set(locked))
    if strangers:
        told = ", ".join(f"{name} {version}" for name, version in strangers)
        raise ValueError(f"found {told}, which uv.lock has not")
    here = [locked[each] for each in sorted(installed.items())]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _named(locked[ROOT, installed[ROOT]]) | {"type": "application"}},
        "components": [_component(each) for each in here if each["name"] != ROOT],
    }


def installed_in(directory: str) -> dict[str, str]:
    found = metadata.distributions(path=[directory])
    return {re.sub(r"[-_.]+", "-", each.name).lower(): each.version for each in found}


def _named(package: Package) -> dict[str, Any]:
    purl = f"pkg:pypi/{package['name']}@{package['version']}"
    return {"name": package["name"], "version": package["version"], "purl": purl, "bom-ref": purl}


def _component(package: Package) -> dict[str, Any]:
    files = [*([package["sdist"]] if "sdist" in package else []), *package.get("wheels", ())]
    references = [
        {
            "type": "distribution",
            "url": each["url"],
            "hashes": [{"alg": "SHA-256", "content": each["hash"].removeprefix("sha256:")}],
        }
        for each in files
    ]
    return {"type": "library", **_named(package), "externalReferences": references}


if __name__ == "__main__":
    found = bill(Path(sys.argv[1]).read_text(encoding="utf-8"), installed_in(sys.argv[2]))
    sys.stdout.write(json.dumps(found, indent=1))
