"""queryshift: online adaptation of cross-modal retrieval models to the queries they really get.

The public names are imported on first use, so that `import queryshift` loads no torch. Checkers
and editors see them as the imports below.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from . import lab as lab  # registers its models and corruptions: names only, nothing is loaded
from .support.deprecation import warn_renamed

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .encoders.encoder import Encoder as Encoder
    from .encoders.vectors import Vectors as Vectors
    from .errors import Error as Error
    from .galleries import Gallery as Gallery
    from .galleries import Hits as Hits
    from .galleries import Searchable as Searchable
    from .lab.own_traffic.evaluate import evaluate as evaluate
    from .methods import COME as COME
    from .methods import EATA as EATA
    from .methods import METHODS as METHODS
    from .methods import PL as PL
    from .methods import READ as READ
    from .methods import REST as REST
    from .methods import SAR as SAR
    from .methods import SHOT as SHOT
    from .methods import TCR as TCR
    from .methods import TSA as TSA
    from .methods import Decoupled as Decoupled
    from .methods import Frozen as Frozen
    from .methods import InfoMax as InfoMax
    from .methods import Method as Method
    from .methods import Refined as Refined
    from .methods import TCRUntrained as TCRUntrained
    from .methods import Tent as Tent
    from .models import MODELS as MODELS
    from .models import load as load
    from .retrieval.answer import Answer as Answer
    from .retrieval.hubness.hub_correction import Hubs as Hubs
    from .sessions.batch_stats import BatchStats as BatchStats
    from .sessions.batched import answer_many as answer_many
    from .sessions.events import Event as Event
    from .sessions.events import GuardWarning as GuardWarning
    from .sessions.feedback import ClickScores as ClickScores
    from .sessions.guard import Guard as Guard
    from .sessions.inputs import RecallWarning as RecallWarning
    from .sessions.recall_check import RecallCheck as RecallCheck
    from .sessions.recall_check import check_recall as check_recall
    from .sessions.reference_queries import ReferenceQueries as ReferenceQueries
    from .sessions.reference_queries import ReferenceWarning as ReferenceWarning
    from .sessions.session import Session as Session

_NAMES = {
    "encoders.encoder": "Encoder",
    "encoders.vectors": "Vectors",
    "galleries": "Gallery Searchable Hits",
    "sessions.guard": "Guard",
    "retrieval.hubness.hub_correction": "Hubs",
    "sessions.events": "GuardWarning Event",
    "sessions.reference_queries": "ReferenceQueries ReferenceWarning",
    "sessions.recall_check": "RecallCheck check_recall",
    "sessions.inputs": "RecallWarning",
    "sessions.session": "Session",
    "retrieval.answer": "Answer",
    "sessions.batch_stats": "BatchStats",
    "sessions.feedback": "ClickScores",
    "sessions.batched": "answer_many",
    "methods": (
        "METHODS Method Frozen Tent PL SHOT EATA SAR READ COME TSA TCR REST InfoMax "
        "TCRUntrained Decoupled Refined"
    ),
    "lab.own_traffic.evaluate": "evaluate",
    "models": "load MODELS",
    "errors": "Error",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

_RENAMED = {"Ordinary": "ReferenceQueries", "OrdinaryWarning": "ReferenceWarning"}
"""Old names that keep working for one minor version, and what they are called now."""

__all__ = ["__version__", *sorted(_HOMES)]

if not TYPE_CHECKING:  # a checker would take every misspelt name for one that may be there

    def __getattr__(name: str) -> object:
        if name in _RENAMED:
            old, name = name, _RENAMED[name]
            warn_renamed(f"queryshift.{old}", f"queryshift.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'queryshift' has no attribute {name!r}")
        return getattr(import_module(f"queryshift.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
