"""Back-ends of others: installed, named by a profile, asked for what they can do, and used (G10)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from spinney.api.operator_configuration import BACKENDS, ConfigurationError, OperatorConfiguration, load_configuration
from spinney.cli.main import cli
from spinney.core.admission.settings import settings_of as admission_settings_of
from spinney.drive.operator.settings_from_config import capabilities_of, settings_of, third_party_backends
from spinney.drive.operator.startup import NO_BACKEND, StartupFailed
from spinney.sim.world import World
from spinney.whatif.inputs.operator_settings import admission_of, read_configuration
from unit.operator.operator_world import clique, in_world, podcliqueset

PLUG_IN = '''
"""A scheduler of somebody else's; it takes orders from annotations."""

from dataclasses import dataclass, field

from spinney.core.expansion.backends import Capabilities, Marks


@dataclass(frozen=True, slots=True)
class Acme:
    name: str = "acme"
    capabilities: Capabilities = Capabilities(gang=True)
    manages_topologies: bool = False
    watches: tuple = ()
    lane: str = ""

    def mark_gang(self, podcliqueset):
        return Marks(annotations={"acme.example/lane": self.lane})

    def mark_pod(self, gang, clique):
        return Marks(labels={"acme.example/gang": gang})

    def sync_gang(self, gang, find):
        return ()

    def twin_of(self, topology, find):
        return None


def create(config):
    able = Capabilities(gang=True, required_topology=config.get("able", False))
    return Acme(lane=config.get("lane", ""), capabilities=able)


def misnamed(config):
    return Acme(name="other")


def broken(config):
    raise RuntimeError("no licence")
'''
POINTS = """[spinney.backends]
acme = acme_for_spinney:create
misnamed = acme_for_spinney:misnamed
broken = acme_for_spinney:broken
kai-scheduler = acme_for_spinney:create
"""
LEVELS = [{"domain": "rack", "key": "example.com/rack"}, {"domain": "host", "key": "kubernetes.io/hostname"}]


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_for_spinney.py").write_text(PLUG_IN)
    about = tmp_path / "acme_for_spinney-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-for-spinney\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(tmp_path)


def configured(name: str = "acme", **config: Any) -> str:
    """As the file has it."""
    profiles = [{"name": name, "default": True, "config": config}]
    tas = {"enabled": True, "levels": LEVELS}
    return json.dumps({"scheduler": {"profiles": profiles}, "topologyAwareScheduling": tas})


def loaded(name: str = "acme", **config: Any) -> OperatorConfiguration:
    return load_configuration(configured(name, **config), (*BACKENDS, *third_party_backends()))


def test_g10_installed_plug_ins_are_known_and_ours_stay_ours() -> None:
    assert {"acme", "broken", "misnamed"} <= set(third_party_backends())
    assert "kai-scheduler" not in third_party_backends()
    assert type(settings_of(loaded("kai-scheduler")).backends["kai-scheduler"]).__name__ == "Kai"


def test_g10_a_plug_in_marks_the_gangs_and_pods_of_its_sets() -> None:
    settings = settings_of(loaded(lane="fast"))

    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("w")]))
        await world.settle()
        (pod,) = await world.list("Pod")
        assert pod["spec"]["schedulerName"] == "acme"
        assert pod["metadata"]["labels"]["acme.example/gang"] == "d-0"
        gang = await world.get("PodGang", "d-0") or {}
        assert gang["metadata"]["annotations"]["acme.example/lane"] == "fast"
        assert gang["metadata"]["labels"]["grove.io/scheduler-name"] == "acme"

    in_world(scenario, settings)


@pytest.mark.parametrize("able", [False, True])
def test_g10_what_a_plug_in_declares_counts_at_admission(able: bool) -> None:
    configuration = loaded(able=able)
    declared = admission_settings_of(configuration, capabilities=capabilities_of(configuration))
    assert declared.backends["acme"].required_topology is able
    assert admission_of(configuration)._settings.backends["acme"].required_topology is able


@pytest.mark.parametrize(("able", "status"), [(False, 1), (True, 0)])
def test_g10_validate_asks_the_plug_in_of_the_configuration(able: bool, status: int, tmp_path: Path) -> None:
    config = tmp_path / "operator.yaml"
    config.write_text(configured(able=able))
    manifest = tmp_path / "set.yaml"
    packed = {"packDomain": "rack"}
    manifest.write_text(json.dumps(podcliqueset("d", [clique("w")], topologyConstraint=packed)))
    done = CliRunner().invoke(cli, ["validate", "-f", str(manifest), "--config", str(config)])
    assert done.exit_code == status, done.output
    refusal = "acme scheduler backend does not support topologyConstraint on PodCliqueSet"
    assert (refusal in done.output) is not able


def test_g10_an_unknown_profile_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        loaded("acne")
    known = " ".join(sorted((*BACKENDS, *third_party_backends())))
    assert f'scheduler.profiles[0].name: Invalid value: "acne": must be one of [{known}]' in str(refused.value)
    assert "acme" in known
    config = tmp_path / "operator.yaml"
    config.write_text(configured("acne"))
    done = CliRunner().invoke(cli, ["validate", "-f", str(config), "--config", str(config)])
    assert done.exit_code == 2
    assert "must be one of [acme" in done.output


def test_g10_a_configuration_file_may_name_a_plug_in(tmp_path: Path) -> None:
    config = tmp_path / "operator.yaml"
    config.write_text(configured(lane="fast"))
    assert read_configuration(config).default_profile == "acme"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broken", "RuntimeError('no licence')"),
        ("misnamed", 'found name "other", expected that of its profile'),
    ],
)
def test_g10_a_plug_in_that_cannot_be_used_ends_the_start_with_5(name: str, words: str) -> None:
    with pytest.raises(StartupFailed, match="acme_for_spinney:") as failed:
        settings_of(loaded(name))
    assert words in str(failed.value)
    assert failed.value.status == NO_BACKEND == 5
