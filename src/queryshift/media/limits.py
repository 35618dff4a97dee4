"""Deprecated name of `queryshift.media.item_reading`."""

import sys
import warnings

from . import item_reading

warnings.warn(
    "queryshift.media.limits is now queryshift.media.item_reading", DeprecationWarning, stacklevel=2
)
sys.modules[__name__] = item_reading
