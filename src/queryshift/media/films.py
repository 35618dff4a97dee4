"""Deprecated name of `queryshift.media.videos`."""

import sys
import warnings

from . import videos

warnings.warn(
    "queryshift.media.films is now queryshift.media.videos", DeprecationWarning, stacklevel=2
)
sys.modules[__name__] = videos
