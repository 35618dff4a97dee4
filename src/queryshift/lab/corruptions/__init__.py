"""Query shifts over four modalities: look one up by name, combine them, apply them seeded.

`lookup.py` finds a corruption by name, `combine.py` mixes several. A folder or file per modality;
`files/` corrupts files and folders. Imports: `errors`, `support`, `media`.
Start with `corruption.py`, then `image/noise.py`. Importing this package loads no numpy and no
OpenCV; the first corruption that is used does.
"""

from .combine import both, combination, one_of, segments
from .corruption import SEVERITIES, Corruption, check_severity, corrupt, generator
from .lookup import families, find
from .names import COMBINATIONS, MODALITIES, NAMES, REPRESENTATIVE

__all__ = [
    "COMBINATIONS",
    "MODALITIES",
    "NAMES",
    "REPRESENTATIVE",
    "SEVERITIES",
    "Corruption",
    "both",
    "check_severity",
    "combination",
    "corrupt",
    "families",
    "find",
    "generator",
    "one_of",
    "segments",
]
