"""Our kinds on both servers: the CRDs are accepted, and their schemas alone take and refuse what they should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster_kit.space import Space
from spinney.api.crds import all_crds

SAMPLES = yaml.safe_load((Path(__file__).parents[1] / "golden" / "crd_samples.yaml").read_text())
CRDS = {crd["spec"]["names"]["kind"]: crd for crd in all_crds()}

Json = dict[str, Any]


def installed(space: Space, kind: str) -> str:
    """The collection of the kind, served. Definitions are shared by all tests and stay."""
    cluster = Space(space.server, "")
    crd = CRDS[kind]
    cluster.apply("customresourcedefinitions", crd, force="true")
    cluster.established(crd["metadata"]["name"])
    spec = crd["spec"]
    version = next(one["name"] for one in spec["versions"] if one["storage"])
    return f"{spec['group']}/{version}/{spec['names']['plural']}"


def home(space: Space, kind: str) -> Space:
    return space if CRDS[kind]["spec"]["scope"] == "Namespaced" else Space(space.server, "")


@pytest.mark.parametrize("kind", sorted(CRDS))
def test_the_server_finds_nothing_wrong_with_the_definition(kind: str, space: Space) -> None:
    installed(space, kind)
    found = Space(space.server, "").get("customresourcedefinitions", CRDS[kind]["metadata"]["name"]).ok(200)
    conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


@pytest.mark.parametrize("sample", SAMPLES, ids=[one["name"] for one in SAMPLES])
def test_samples_are_taken_or_refused_with_the_words_given(sample: Json, space: Space) -> None:
    obj = sample["object"]
    collection = installed(space, obj["kind"])
    reply = home(space, obj["kind"]).create(collection, obj, dryRun="All", fieldValidation="Ignore")
    if "refused" in sample:
        for text in sample["refused"]:
            reply.refused(422, "Invalid", text)
    else:
        reply.ok(201)
