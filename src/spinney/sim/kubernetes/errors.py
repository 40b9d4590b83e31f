"""What can go wrong on the way to a real control plane."""

from __future__ import annotations


class ControlPlaneError(Exception):
    """The root of this package's errors."""


class AssetsUnavailable(ControlPlaneError):
    """The programs are not on this machine and cannot be built; the message says what is missing."""


class StartFailed(ControlPlaneError):
    """A program ended or did not become ready in time; the message carries the end of its log."""


class AddressTaken(StartFailed):
    """Somebody else listens where a program was to listen."""
