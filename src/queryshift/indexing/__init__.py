"""Galleries built from files of items: in batches, in several processes or on a Ray cluster.

A build goes on where it was stopped, even by `kill -9`, with no candidate twice or missing.

Imports: `support`, `media`, `encoders`, `galleries`, `models`. Start with `build.py`; `plan.py`
cuts the items into shards, `journal.py` records which are finished, `targets.py` says what can be
written, `workers.py` where shards are encoded.
"""

from .build import BuildSettings, Built, build_gallery
from .journal import BadRow

__all__ = ["BadRow", "BuildSettings", "Built", "build_gallery"]
