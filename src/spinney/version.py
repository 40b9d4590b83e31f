"""The version of the package; a module of its own, so that every layer may name it."""

VERSION = "0.1.0"
