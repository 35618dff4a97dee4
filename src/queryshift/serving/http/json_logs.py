"""Logs as one JSON object a line, with request and tenant ids."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

TOLD = ("request_id", "tenant", "collection", "caller", "route", "status", "ms", "session", "event")


class JsonLines(logging.Formatter):
    """A record as JSON: time, level, logger, message, and the fields that it has of `TOLD`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in TOLD:
            if (value := getattr(record, name, None)) is not None:
                line[name] = value
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_config() -> dict[str, Any]:
    """The configuration of uvicorn's loggers and of ours."""
    level = {"handlers": ["lines"], "level": "INFO", "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": f"{__name__}.{JsonLines.__name__}"}},
        "handlers": {
            "lines": {
                "class": "logging.StreamHandler",
                "formatter": "json",
                "stream": "ext://sys.stdout",
            }
        },
        "loggers": {"uvicorn": level, "queryshift": level},
    }
