"""Corrupted files: one, a folder, or the same ones again from a manifest.

A run goes from `recipe.py` (what to do) over `layouts.py` (a task per item) to `corrupt_item.py`
(start there) and `manifest.py`. `corrupt_folder.py` runs all tasks; `rebuild_from_manifest.py`
makes the files again and says which came out differently. Imports: the rest of `corruptions`.
"""

from .corrupt_folder import Summary, corrupt_files
from .layouts import LAYOUTS
from .rebuild_from_manifest import make_again
from .recipe import Recipe

__all__ = ["LAYOUTS", "Recipe", "Summary", "corrupt_files", "make_again"]
