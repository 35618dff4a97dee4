"""The lines that the default was to reach on the sealed world, each reached or missed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from queryshift.lab.datasets.tangram_tasks import TASKS

from .lines import TASK_NAMES
from .sealed_rows import (
    RIVALS,
    Difference,
    Row,
    Rows,
    best_rival,
    difference,
    mean_of,
    of_kind,
    over_rows,
)
from .units import DEFAULT

ABOVE, LOST_CLEAN, LOST_HOSTILE, CHEAP = 4.0, 0.2, 1.0, 1.15
HOSTILE = (
    "sorted",
    "sorted, after",
    "repeated, itself",
    "repeated, during",
    "repeated, after",
    "noise, during",
    "noise, after",
)
Costs = Mapping[str, float]


@dataclass(frozen=True)
class Verdict:
    """One line: what was wanted, whether it is so, and the numbers."""

    wanted: str
    reached: bool
    told: str

    def __str__(self) -> str:
        return f"- **{self.wanted}:** {self.told}"


def verdicts(found: Rows, costs: Costs) -> Iterator[Verdict]:
    """All lines, in the order in which they were set."""
    yield _twenty(found)
    yield _mean(found, "online", "Four points above the best of the three on the ten online rows")
    yield _mean(found, "zipf", "The same where scenes are asked for by a Zipf law")
    for kind, name in (("clean", "Clean traffic"), ("clean zipf", "Clean traffic by a Zipf law")):
        yield _not_below(found, [kind], f"{name} at most 0.2 points below frozen, or within chance")
    yield _mixed(found, ["few"], "Few scenes again and again: not below the best of the three")
    yield _mixed(found, ["half", "tenth"], "Half or a tenth shifted: not below the best of them")
    wanted = "Sorted, one query repeated, noise: at most a point below frozen, during and after"
    yield _not_below(found, HOSTILE, wanted, LOST_HOSTILE, chance=False)
    yield _cheap(found, costs)
    yield _with_hubs(found)


def _twenty(found: Rows) -> Verdict:
    places = [place for place in found if place[0] in ("online", "diverse")]
    against = {place: _over_best(found[place]) for place in places}
    below = {place: one for place, one in against.items() if one.high < 0}
    above = sum(one.low > 0 for one in against.values())
    level = len(against) - above - len(below)
    told = f"{above} rows above beyond chance, {level} level, {len(below)} below"
    names = "; ".join(
        f"{TASK_NAMES[task]}, {kind}, severity {severity}: {one.points:+.1f}"
        for (kind, task, severity), one in below.items()
    )
    wanted = f"Above REST, TCR and SHOT, or level, in all {len(against)} online and diverse rows"
    return Verdict(wanted, not below, f"{told} ({names})." if below else f"{told}.")


def _mean(found: Rows, kind: str, wanted: str) -> Verdict:
    some = of_kind(found, kind)
    means = {name: mean_of(some, name) for name in (DEFAULT, *RIVALS)}
    best = max(RIVALS, key=lambda name: means[name])
    over = difference(over_rows(some, DEFAULT), over_rows(some, best))
    numbers = ", ".join(f"{name} {means[name]:.1f}" for name in (DEFAULT, *RIVALS))
    return Verdict(wanted, over.points >= ABOVE, f"{over} over {best} ({numbers}).")


def _not_below(
    found: Rows, kinds: Iterable[str], wanted: str, lost: float = LOST_CLEAN, chance: bool = True
) -> Verdict:
    against = {
        (kind, task): difference(row[DEFAULT], row["frozen"])
        for kind, task, row in _rows(found, kinds)
    }
    worse = {
        place: one
        for place, one in against.items()
        if round(one.points, 2) < -lost and not (chance and one.high >= 0)
    }
    lowest = min(against, key=lambda place: against[place].points)
    text = _listed(worse) if worse else f"the lowest is {_listed({lowest: against[lowest]})}"
    return Verdict(wanted, not worse, f"{text}.")


def _mixed(found: Rows, kinds: Iterable[str], wanted: str) -> Verdict:
    against = {(kind, task): _over_best(row) for kind, task, row in _rows(found, kinds)}
    below = {place: one for place, one in against.items() if one.high < 0}
    points = [one.points for one in against.values()]
    told = f"{min(points):+.1f} to {max(points):+.1f} over the best"
    return Verdict(wanted, not below, f"{told}; {_listed(below)}." if below else f"{told}.")


def _cheap(found: Rows, costs: Costs) -> Verdict:
    some, name = of_kind(found, "online"), "frozen+hubs"
    own, rest, slower = mean_of(some, name), mean_of(some, "rest"), costs[name] / costs["frozen"]
    wanted = (
        "Correction alone: REST's mean of the online rows, at 1.15 times the frozen model's time"
    )
    told = f"{own:.1f} where REST has {rest:.1f}, at {slower:.2f} times."
    return Verdict(wanted, own >= rest and slower <= CHEAP, told)


def _with_hubs(found: Rows) -> Verdict:
    """No line that was set, but what a reader asks next."""
    told, reached = [], True
    for kind, name in (("online", "online"), ("zipf", "Zipf")):
        some = of_kind(found, kind)
        for other in ("rest+hubs", "shot+hubs"):
            over = difference(over_rows(some, DEFAULT), over_rows(some, other))
            told.append(f"{name} {over.points:+.1f} over {other} ({mean_of(some, other):.1f})")
            reached = reached and over.high >= 0
    wanted = "Not below REST and SHOT with hub correction on the same means (no line, but asked)"
    return Verdict(wanted, reached, f"{', '.join(told)}.")


def _rows(found: Rows, kinds: Iterable[str]) -> Iterator[tuple[str, str, Row]]:
    """Rows of streams that each task has one of."""
    for kind in kinds:
        for task in TASKS:
            row = found.get((kind, task, 3), {})
            if DEFAULT in row:
                yield kind, task, row


def _over_best(row: Row) -> Difference:
    return difference(row[DEFAULT], row[best_rival(row)])


def _listed(against: Mapping[tuple[str, str], Difference]) -> str:
    return "; ".join(f"{TASK_NAMES[task]}, {kind}: {one}" for (kind, task), one in against.items())
