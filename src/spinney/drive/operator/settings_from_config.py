"""The operator's settings, built from its configuration file; third-party backends are found by entry point (G10)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

from spinney.api.labels import ENV_INIT_CONTAINER_IMAGE, SCHEDULER_DEFAULT, SCHEDULER_KAI
from spinney.api.operator_configuration import OperatorConfiguration, Profile
from spinney.core.expansion.backends import Backend, Capabilities
from spinney.core.expansion.backends.default_scheduler import DefaultScheduler
from spinney.core.expansion.backends.kai import Kai
from spinney.core.expansion.settings import AutoPreferred, Settings
from spinney.drive.operator.operator import Concurrency
from spinney.drive.operator.startup import NO_BACKEND, StartupFailed
from spinney.version import VERSION

ENTRY_POINTS = "spinney.backends"
"""A plug-in is a function from the `config` of its profile to a `Backend`, registered under its scheduler's name."""

_OURS = (SCHEDULER_KAI, SCHEDULER_DEFAULT)


def settings_of(configuration: OperatorConfiguration) -> Settings:
    """Raises `StartupFailed` if a backend plug-in cannot be used."""
    tas = configuration.topology_aware_scheduling
    return Settings(
        topology_enabled=configuration.topology_enabled,
        levels=tas.levels if configuration.writes_default_topology and tas.enabled else (),
        default_topology=configuration.default_topology,
        needs_default=configuration.topology is not None,
        auto_preferred=AutoPreferred(tas.auto_preferred),
        protects_topologies=tas.protect_used,
        backends=_backends(configuration),
        default_backend=configuration.default_profile,
        init_image=init_image(),
        mnnvl_enabled=configuration.network.auto_mnnvl_enabled,
    )


def concurrency_of(configuration: OperatorConfiguration) -> Concurrency:
    controllers = configuration.controllers
    return Concurrency(
        controllers.pod_clique_set.concurrent_syncs,
        controllers.pod_clique.concurrent_syncs,
        controllers.pod_clique_scaling_group.concurrent_syncs,
        controllers.pod_gang.concurrent_syncs,
    )


def capabilities_of(configuration: OperatorConfiguration) -> Mapping[str, Capabilities]:
    """The capabilities that the scheduler of each profile declares (G10). Raises as `settings_of` does."""
    return {name: backend.capabilities for name, backend in _backends(configuration).items()}


def third_party_backends() -> tuple[str, ...]:
    """Scheduler names added by installed plug-ins; a plug-in cannot replace a built-in backend."""
    return tuple(sorted({found.name for found in entry_points(group=ENTRY_POINTS)} - set(_OURS)))


def init_image() -> str:
    """The image of the init container; an image without a tag gets the tag of this version."""
    image = os.environ.get(ENV_INIT_CONTAINER_IMAGE, "spinney")
    return image if ":" in image.rsplit("/", 1)[-1] else f"{image}:{VERSION}"


def _backends(configuration: OperatorConfiguration) -> dict[str, Backend]:
    return {profile.name: _backend(profile) for profile in configuration.scheduler.profiles}


def _backend(profile: Profile) -> Backend:
    if profile.name == SCHEDULER_KAI:
        return Kai(manages_topologies=profile.kai.create_topology_resources, numa=profile.kai.numa)
    if profile.name not in _OURS:
        for found in entry_points(group=ENTRY_POINTS, name=profile.name):
            return _plugged(found, profile)
    return DefaultScheduler(profile.name or SCHEDULER_DEFAULT)


def _plugged(point: EntryPoint, profile: Profile) -> Backend:
    """Load a third-party backend and check its name and capabilities before it is used."""
    title = f'scheduler back-end "{profile.name}" ({point.value})'
    try:
        made: Backend = point.load()(profile.config)
        name, capabilities = made.name, made.capabilities
    except Exception as error:
        raise StartupFailed(f"{title} cannot be used: {error!r}", NO_BACKEND) from error
    if name != profile.name:
        raise StartupFailed(f'{title}: found name "{name}", expected that of its profile', NO_BACKEND)
    if not isinstance(capabilities, Capabilities):
        raise StartupFailed(f"{title}: found capabilities {capabilities!r}, expected Capabilities", NO_BACKEND)
    return made
