"""queryshift: online adaptation of cross-modal retrieval models to the queries they really get.

The public names are imported on first use, so that `import queryshift` loads no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Encoder": "encoders.encoder",
    "Vectors": "encoders.vectors",
    "Gallery": "galleries",
    "Searchable": "galleries",
    "Hits": "galleries",
    "Guard": "sessions.guard",
    "Hubs": "retrieval.hub_correction",
    "GuardWarning": "sessions.events",
    "Ordinary": "sessions.ordinary",
    "OrdinaryWarning": "sessions.ordinary_warnings",
    "RecallCheck": "sessions.recall_check",
    "RecallWarning": "sessions.recall_warning",
    "check_recall": "sessions.recall_check",
    "Session": "sessions.session",
    "Answer": "retrieval.answer",
    "BatchStats": "sessions.batch_stats",
    "ClickScores": "sessions.feedback",
    "Event": "sessions.events",
    "answer_many": "sessions.many",
    "METHODS": "methods",
    "Method": "methods",
    "Frozen": "methods",
    "Tent": "methods",
    "PL": "methods",
    "SHOT": "methods",
    "EATA": "methods",
    "SAR": "methods",
    "READ": "methods",
    "COME": "methods",
    "TSA": "methods",
    "TCR": "methods",
    "REST": "methods",
    "InfoMax": "methods",
    "TCRUntrained": "methods",
    "Decoupled": "methods",
    "Refined": "methods",
    "evaluate": "lab.own_traffic.evaluate",
    "load": "models",
    "MODELS": "models",
    "Error": "errors",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'queryshift' has no attribute {name!r}")
    return getattr(import_module(f"queryshift.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
