"""Logs of a running stack: one line for each event, in JSON or for people, on standard error.

Never on standard output, which belongs to what a command was asked for.
"""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}
"""By the words of a configuration."""

_SHARED: list[structlog.typing.Processor] = [
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
]


def log_to_stderr(level: int = logging.WARNING, form: Literal["json", "text"] = "json") -> None:
    """Our own events, and those of the libraries under us, in one form."""
    renderer = _renderer(form)
    structlog.configure(
        processors=[*_SHARED, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                renderer,
            ],
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_SHARED],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _renderer(form: Literal["json", "text"]) -> structlog.typing.Processor:
    if form == "json":
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=False)
