"""Every method, in the order reports list them. To add one: write its file, add it here.

Imports: `support`, `encoders`, `galleries`, `retrieval`. Start with `base.py`, then `tent.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from queryshift.support.registry import Table

if TYPE_CHECKING:
    from .base import Method as Method
    from .come import COME as COME
    from .decoupled import Decoupled as Decoupled
    from .eata import EATA as EATA
    from .frozen import Frozen as Frozen
    from .infomax import InfoMax as InfoMax
    from .pl import PL as PL
    from .read import READ as READ
    from .refined import Refined as Refined
    from .rest import REST as REST
    from .sar import SAR as SAR
    from .shot import SHOT as SHOT
    from .tcr import TCR as TCR
    from .tcr_untrained import TCRUntrained as TCRUntrained
    from .tent import Tent as Tent
    from .tsa import TSA as TSA

METHODS: Table[type[Method]] = Table(
    "method",
    {
        "frozen": "queryshift.methods.frozen:Frozen",
        "tent": "queryshift.methods.tent:Tent",
        "pl": "queryshift.methods.pl:PL",
        "shot": "queryshift.methods.shot:SHOT",
        "eata": "queryshift.methods.eata:EATA",
        "sar": "queryshift.methods.sar:SAR",
        "read": "queryshift.methods.read:READ",
        "come": "queryshift.methods.come:COME",
        "tsa": "queryshift.methods.tsa:TSA",
        "tcr": "queryshift.methods.tcr:TCR",
        "rest": "queryshift.methods.rest:REST",
        "infomax": "queryshift.methods.infomax:InfoMax",
        "tcr_untrained": "queryshift.methods.tcr_untrained:TCRUntrained",
    },
)
"""Every method by its name, in the order reports list them.

Examples:
    >>> import queryshift as qs
    >>> list(qs.METHODS)[:3]
    ['frozen', 'tent', 'pl']
    >>> qs.METHODS["tent"](lr=1e-4)
    Tent(lr=0.0001, temperature=None, weight_decay=0.0001, optimiser='adamw')
"""

OURS = ("infomax", "tcr_untrained")
"""Those that the paper does not compare."""

WRAPPERS: Table[type[Method]] = Table(
    "wrapper",
    {
        "decoupled": "queryshift.methods.decoupled:Decoupled",
        "refined": "queryshift.methods.refined:Refined",
    },
)

_LISTED = (*METHODS.homes.values(), *WRAPPERS.homes.values(), "queryshift.methods.base:Method")
_HOMES = dict(home.split(":")[::-1] for home in _LISTED)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
