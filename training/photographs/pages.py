"""Write the numbers of the photographs into the pages that have them.

python -m training.photographs.pages .
"""

from __future__ import annotations

import sys
from pathlib import Path

from queryshift.lab.evaluation.results import Cell, read_folder
from training.comparison import lines

from . import report
from .report import DIRECTIONS, Difference, difference, in_both, recall

TEMPLATE = Path(__file__).with_name("page.md")
DEFAULT, BARE = "default", "infomax+hubs"  # BARE: the default's parts without a guard
SHORT = ("frozen", "frozen+hubs", "rest", "tcr", "shot", "shot+hubs", DEFAULT)
OTHERS = ("frozen", "shot", "rest", "tcr", "shot+hubs", "rest+hubs")
LINE = "- [Photographs](photographs.md): "  # in the list of results
CORRECTED = (
    "At version 0.1.0, before the policy of today, on [photographs](results/photographs.md) "
    "(Flickr8k's test split, a small encoder) "
)


def pages(root: Path) -> dict[Path, str]:
    """Each page and its text, with the numbers of the kept runs."""
    results = root / "docs" / "results"
    val = read_folder(results / "photographs" / "val").cells
    test = report.finished(read_folder(results / "photographs" / "test").cells)
    list_of_results = (results / "README.md").read_text()
    corrected = root / "docs" / "hub-correction.md"
    return {
        corrected: _with_line(corrected.read_text(), CORRECTED, by_correction(test)),
        results / "photographs.md": page(val, test),
        results / "README.md": _with_line(list_of_results, LINE, in_a_line(test)),
    }


def page(val: list[Cell], test: list[Cell]) -> str:
    """The page of the photographs."""
    return TEMPLATE.read_text().format(
        answer=answer(test),
        short=short(test),
        reasons=reasons(test),
        image=report.recalls(test, "image"),
        text=report.recalls(test, "text"),
        differences=report.differences(test, DEFAULT, OTHERS),
        image_rates=report.grid(val, "image"),
        text_rates=report.grid(val, "text"),
    )


def answer(test: list[Cell]) -> str:
    """Whether what was wanted holds, first of all."""
    gains = {other: in_both(test, DEFAULT, other) for other in ("shot", "rest")}
    reached = all(gain.points >= 1 and gain.interval[0] > 0 for gain in gains.values())
    told = " and ".join(f"{_against(gain)} {other.upper()}" for other, gain in gains.items())
    first = f"**On real photographs our default (`qs.Session(encoder, gallery)`) is {told}.**"
    if not reached:
        first = (
            f"**What we wanted does not hold on real photographs: our default is {told}; wanted "
            "was a point above both, beyond chance.**"
        )
    means = ", ".join(
        f"{sum(recall(test, method, query) for query in DIRECTIONS) / 2:.1f} with {name}"
        for method, name in (
            ("frozen", "no adaptation"),
            (DEFAULT, "our default"),
            ("rest", "REST"),
            ("tcr", "TCR"),
            ("shot", "SHOT"),
            ("shot+hubs", "SHOT and hub correction"),
        )
    )
    clean = " and ".join(
        f"{difference(test, DEFAULT, 'frozen', query, clean=True)} for {items}"
        for query, items in zip(DIRECTIONS, ("pictures", "captions"), strict=True)
    )
    corrected = in_both(test, DEFAULT, "shot+hubs")
    return (
        f"{first} Against SHOT with hub correction it is "
        f"{_against(corrected)}. Mean of both directions, five shifted streams each, test split: "
        f"{means}.\n"
        f"On clean queries the default is against no adaptation {clean}."
    )


def in_a_line(test: list[Cell]) -> str:
    """One line for the list of results."""
    gains = " and ".join(
        f"{_against(in_both(test, DEFAULT, other))} {other.upper()}" for other in ("shot", "rest")
    )
    return f"Flickr8k with a small encoder of our own; our default is {gains} there."


def by_correction(test: list[Cell]) -> str:
    """What the page of hub correction says after `CORRECTED`."""
    image, text = (
        [str(difference(test, f"{one}+hubs", one, query)) for one in ("frozen", "shot", "rest")]
        for query in DIRECTIONS
    )
    return (
        f"image queries of the frozen model gain {image[0]} points, of SHOT {image[1]}, of REST "
        f"{image[2]}; text queries {text[0]}, {text[1]} and {text[2]}."
    )


def short(test: list[Cell]) -> str:
    """The table that is looked at first."""
    kinds = [(query, clean) for clean in (False, True) for query in DIRECTIONS]
    heads = (
        "image queries, mean of five shifts",
        "text queries, mean of five shifts",
        "clean pictures",
        "clean captions",
    )
    rows = []
    for head, kind in zip(heads, kinds, strict=True):
        found = [recall(test, method, *kind) for method in SHORT]
        shown = [f"{one:.1f}" for one in found]
        best = max(shown, key=float)
        rows.append([head, *(f"**{one}**" if one == best else one for one in shown)])
    return lines.table(rows, ["recall at 1, test split", *SHORT[:-1], "our default"])


def reasons(test: list[Cell]) -> str:
    """What else the runs say, with intervals."""

    def gain(ours: str, other: str, query: str = "image") -> Difference:
        return difference(test, ours, other, query)

    text = {m: recall(test, m, "text") - recall(test, "frozen", "text") for m in SHORT[1:]}
    told = [
        f"**Adapting pays for image queries**: our default {gain(DEFAULT, 'frozen')} points over "
        f"no adaptation, SHOT {gain('shot', 'frozen')}, REST {gain('rest', 'frozen')}.",
        f"**Nothing pays much for text queries**: the methods of the table above are between "
        f"{min(text.values()):+.2f} and {max(text.values()):+.2f} points of no adaptation.",
        f"**Hub correction** gives image queries of the frozen model "
        f"{gain('frozen+hubs', 'frozen')}, of SHOT {gain('shot+hubs', 'shot')}; text queries "
        f"{gain('frozen+hubs', 'frozen', 'text')} and {gain('shot+hubs', 'shot', 'text')}.",
    ]
    if any(report.named(cell)[0] == BARE for cell in test):
        told.append(
            f"**Guard and choice** of who answers: the default is {gain(DEFAULT, BARE)} points "
            f"for image queries and {gain(DEFAULT, BARE, 'text')} for text queries against its "
            f"own method and hub correction without them (`{BARE}`)."
        )
    return "\n".join(f"- {one}" for one in told)


def _against(gain: Difference) -> str:
    low, high = gain.interval
    chance = "" if gain.beyond_chance else ", within chance"
    where = "above" if gain.points >= 0 else "below"
    bounds = (low, high) if gain.points >= 0 else (-high, -low)
    return f"{abs(gain.points):.1f} points ({bounds[0]:.1f} to {bounds[1]:.1f}{chance}) {where}"


def _with_line(text: str, start: str, own: str) -> str:
    """The text with the rest of the line that begins so replaced."""
    every = text.split("\n")
    return "\n".join(start + own if line.startswith(start) else line for line in every)


if __name__ == "__main__":
    for path, text in pages(Path(sys.argv[1])).items():
        path.write_text(text)
