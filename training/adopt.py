"""Put newly trained weights in the place of the bundled ones, if they find what they must."""

from __future__ import annotations

import argparse
from pathlib import Path

from training import measure
from training.stored import BUNDLED, MADE_BY, NEW, READERS, STORED, TOKENIZER, put, use

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
    use(options.folder)
    poor = [task for task in made if not _good(task, options.count)]
    if _other_words(options.folder, options.into) and not {*made} - {*poor} >= {*READERS}:
        print(f"the tokenizer is new: {' and '.join(READERS)} are adopted together or not at all")
        poor += [task for task in made if task in READERS and task not in poor]
    for task in made:
        if task not in poor:
            adopt(task, options.folder, options.into, options.logs)
            print(f"{task}: now in {options.into}", flush=True)
    if poor:
        raise SystemExit(
            f"{', '.join(poor)}: not adopted: {options.into} keeps what it has; "
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


def _other_words(folder: Path, into: Path) -> bool:
    return (folder / TOKENIZER).read_bytes() != (into / TOKENIZER).read_bytes()


def adopt(task: str, folder: Path, into: Path, logs: Path) -> None:
    """Replace a task's weights, each file whole or not at all, and its logs."""
    words = (TOKENIZER,) if task in READERS else ()
    for file in (*(STORED[name] for name in MADE_BY[task]), *words):
        put(folder / file, into / file)
    for name in MADE_BY[task]:
        for ending in ("json", "jsonl"):
            put(folder / "logs" / f"{name}.{ending}", logs / f"{name}.{ending}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=NEW, help="of the new weights")
    parser.add_argument("--into", type=Path, default=BUNDLED)
    parser.add_argument("--logs", type=Path, default=LOGS)
    parser.add_argument("--count", type=int, default=2000, help="queries to measure with")
    return parser.parse_args()


if __name__ == "__main__":
    main()
