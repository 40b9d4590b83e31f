"""The end of the release that the tests of this folder share: this module is the last of them."""

from __future__ import annotations

import re
from functools import partial

import pytest

from cluster_kit.server import eventually
from node.image import ROOT
from node.installation import NAMESPACE, PATIENCE, PATIENCE_S, Installation
from spinney.sim.kubernetes.node.machines import Machine

pytestmark = pytest.mark.node

KINDS = re.findall(r"grep -E '(.+)'\)", (ROOT / "docs" / "install.md").read_text())[0]
"""As the documentation tells our kinds from others."""


def nothing(machine: Machine) -> bool:
    return not machine.run("ctr", "-n", "k8s.io", "tasks", "ls", "-q").strip()


def test_b9_nothing_is_left_when_it_is_uninstalled(installed: Installation) -> None:
    installed.kubectl("delete", "podcliquesets,jobs,pods", "--all", PATIENCE)
    eventually(lambda: not installed.get("pods", "-n", "default")["items"], "no pod", PATIENCE_S)
    installed.spinney("uninstall")
    installed.helm("uninstall", "spinney", "-n", NAMESPACE, "--wait", PATIENCE)
    kinds = [name for name in installed.kubectl("get", "crds", "-o", "name").split() if re.search(KINDS, name)]
    installed.kubectl("delete", *kinds, PATIENCE)
    installed.kubectl("delete", "namespace", NAMESPACE, PATIENCE)
    everywhere = "crds,validatingwebhookconfigurations,mutatingwebhookconfigurations,clusterroles,clusterrolebindings"
    policies = "validatingadmissionpolicies,validatingadmissionpolicybindings,priorityclasses"
    left = installed.kubectl("get", f"{everywhere},{policies}", "-o", "name").split()
    assert [name for name in left if any(word in name for word in ("spinney", "grove", "kai", "dynamo"))] == []
    for machine in installed.cluster.machines:
        eventually(partial(nothing, machine), f"no container runs on {machine.name}", PATIENCE_S)
