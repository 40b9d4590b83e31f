"""The configuration file of the operator: typed, read and judged as a whole (C1, C2, C6)."""

from spinney.api.operator_configuration.loader import BACKENDS, ConfigurationError, fields_given, load_configuration
from spinney.api.operator_configuration.model import (
    Controllers,
    KaiConfig,
    LeaderElection,
    OperatorConfiguration,
    PlacementStrategy,
    Profile,
    Scheduler,
    Server,
    TopologyAwareScheduling,
)

__all__ = [
    "BACKENDS",
    "ConfigurationError",
    "Controllers",
    "KaiConfig",
    "LeaderElection",
    "OperatorConfiguration",
    "PlacementStrategy",
    "Profile",
    "Scheduler",
    "Server",
    "TopologyAwareScheduling",
    "fields_given",
    "load_configuration",
]
