"""Put newly trained weights in the place of the bundled ones, if they find what they must."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from queryshift.models.tangram import WEIGHTS
from training import measure
from training.train import MADE_BY, NEW, STORED

LOGS = Path(__file__).parent / "logs"
# Recall at 1 of 2,000 queries of the development world.
LEAST = {
    "scenes": {
        "image->text": 90.0,
        "text->image": 75.0,
        "image->text, the same reranked": 90.0,
        "text->image, the same reranked": 75.0,
    },
    "clips": {"video->audio": 80.0, "audio->video": 80.0},
    "edits": {"image+text->image": 80.0},
}


def main() -> None:
    options = _options()
    made = [task for task, names in MADE_BY.items() if _whole(options.folder, names)]
    if not made:
        raise SystemExit(f"no finished weights in {options.folder}: run training.train first.")
    measure.use(options.folder)
    poor = [task for task in made if not _good(task, options.count)]
    for task in made:
        if task not in poor:
            adopt(task, options.folder, options.into, options.logs)
            print(f"{task}: now in {options.into}", flush=True)
    if poor:
        raise SystemExit(
            f"{', '.join(poor)}: not good enough, so {options.into} keeps what it has; "
            f"the new weights stay in {options.folder}."
        )


def _whole(folder: Path, names: tuple[str, ...]) -> bool:
    return all((folder / STORED[name]).exists() for name in names)


def _good(task: str, count: int) -> bool:
    """Whether the new weights of a task find enough; says what they find."""
    found = measure.TABLE[task](count, "dev")
    for name, least in LEAST[task].items():
        print(f"{task}: {name} {found[name]} %, at least {least} wished", flush=True)
    return all(found[name] >= least for name, least in LEAST[task].items())


def adopt(task: str, folder: Path, into: Path, logs: Path) -> None:
    """Replace a task's weights, each file whole or not at all, and its logs."""
    for name in MADE_BY[task]:
        beside = into / f"{STORED[name]}.new"
        shutil.copyfile(folder / STORED[name], beside)
        beside.replace(into / STORED[name])
        for ending in ("json", "jsonl"):
            shutil.copyfile(folder / "logs" / f"{name}.{ending}", logs / f"{name}.{ending}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=NEW, help="of the new weights")
    parser.add_argument("--into", type=Path, default=WEIGHTS)
    parser.add_argument("--logs", type=Path, default=LOGS)
    parser.add_argument("--count", type=int, default=2000, help="queries to measure with")
    return parser.parse_args()


if __name__ == "__main__":
    main()
