"""Build galleries from files of items, in one process, in several or on a Ray cluster.

A build that was stopped, even by `kill -9`, continues without missing or duplicate candidates.

Imports: `support`, `media`, `encoders`, `galleries`, `models`. Start with `build.py`; `plan.py`
splits the items into shards, `journal.py` records finished ones, `targets.py` writes files and
engines, `workers.py` encodes shards.
"""

from .build import BuildSettings, Built, build_gallery
from .journal import BadRow

__all__ = ["BadRow", "BuildSettings", "Built", "build_gallery"]
