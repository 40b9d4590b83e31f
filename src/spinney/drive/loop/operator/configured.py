"""From the configuration file to what the operator goes by; other backends are found by entry point (G10)."""

from __future__ import annotations

import os
from importlib.metadata import entry_points

from spinney import __version__
from spinney.api.labels import ENV_INIT_CONTAINER_IMAGE, SCHEDULER_DEFAULT, SCHEDULER_KAI
from spinney.api.operator_configuration import OperatorConfiguration, Profile
from spinney.core.expansion.backends import Backend
from spinney.core.expansion.backends.default_scheduler import DefaultScheduler
from spinney.core.expansion.backends.kai import Kai
from spinney.core.expansion.settings import AutoPreferred, Settings
from spinney.drive.loop.operator.running import Concurrency

ENTRY_POINTS = "spinney.backends"
"""A plug-in is a function from the `config` of its profile to a `Backend`."""


def settings_of(configuration: OperatorConfiguration) -> Settings:
    tas = configuration.topology_aware_scheduling
    return Settings(
        topology_enabled=configuration.topology_enabled,
        levels=tas.levels if configuration.writes_default_topology and tas.enabled else (),
        default_topology=configuration.default_topology,
        auto_preferred=AutoPreferred(tas.auto_preferred),
        backends={profile.name: _backend(profile) for profile in configuration.scheduler.profiles},
        default_backend=configuration.default_profile,
        init_image=init_image(),
    )


def concurrency_of(configuration: OperatorConfiguration) -> Concurrency:
    controllers = configuration.controllers
    return Concurrency(
        controllers.pod_clique_set.concurrent_syncs,
        controllers.pod_clique.concurrent_syncs,
        controllers.pod_clique_scaling_group.concurrent_syncs,
        controllers.pod_gang.concurrent_syncs,
    )


def third_party_backends() -> tuple[str, ...]:
    """The schedulers that installed plug-ins bring."""
    return tuple(sorted(found.name for found in entry_points(group=ENTRY_POINTS)))


def init_image() -> str:
    """The image of the init container; a name without a tag gets this version's."""
    image = os.environ.get(ENV_INIT_CONTAINER_IMAGE, "spinney")
    return image if ":" in image.rsplit("/", 1)[-1] else f"{image}:{__version__}"


def _backend(profile: Profile) -> Backend:
    if profile.name == SCHEDULER_KAI:
        return Kai(manages_topologies=profile.kai.create_topology_resources, numa=profile.kai.numa)
    for found in entry_points(group=ENTRY_POINTS, name=profile.name):
        made: Backend = found.load()(profile.config)
        return made
    return DefaultScheduler(profile.name or SCHEDULER_DEFAULT)
