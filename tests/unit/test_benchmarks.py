"""The benchmarks can be run by name: what the command calls is there."""

from __future__ import annotations

import importlib

import pytest

from spinney.cli.commands.bench import SUITES


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_that_the_command_offers_can_be_run(suite: str) -> None:
    assert callable(importlib.import_module(f"benchmarks.{suite}").run)
