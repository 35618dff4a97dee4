"""How far a corrupted caption is from the clean one."""

from collections.abc import Hashable, Sequence


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Insertions, deletions and replacements between two sequences (Myers, 1999, bit-parallel)."""
    places: dict[Hashable, int] = {}
    for index, item in enumerate(one):
        places[item] = places.get(item, 0) | 1 << index
    everywhere = (1 << len(one)) - 1
    last = 1 << len(one) >> 1
    rises, falls, distance = everywhere, 0, len(one)
    for item in other:
        same = places.get(item, 0)
        diagonal = (((same & rises) + rises) ^ rises) | same | falls
        up, down = falls | ~(diagonal | rises) & everywhere, diagonal & rises
        distance += bool(up & last) - bool(down & last)
        up, down = (up << 1 | 1) & everywhere, down << 1 & everywhere
        rises, falls = down | ~(diagonal | up) & everywhere, diagonal & up
    return distance if one else len(other)


def error_rate(clean: str, corrupted: str) -> float:
    """Character error rate: edits per character of the clean caption."""
    return edit_distance(clean, corrupted) / len(clean)
