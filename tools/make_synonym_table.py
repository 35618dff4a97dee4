"""Make the bundled WordNet tables from Debian's package `wordnet-base` (WordNet 3.0).

    apt-get install wordnet-base
    python tools/make_synonym_table.py /usr/share/wordnet src/queryshift/corruptions/data

`wordnet.tsv.gz` has one line per lemma and part of speech: lemma, part of speech, how often
WordNet's tagged texts use it so, and its synonyms: senses apart by ";", words of one sense by "|".
`exceptions.tsv.gz` has the irregular forms: form, part of speech, lemmas.
Only single words are keys; synonyms may be phrases.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PARTS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
SENSE_TYPES = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
SINGLE_WORD = re.compile(r"[a-z]+(-[a-z]+)*")
SYNTACTIC_MARKER = re.compile(r"\((a|p|ip)\)$")


def records(path: Path) -> Iterator[list[str]]:
    """The fields of each line that is not part of the licence at the top."""
    for line in path.read_text(encoding="ascii").splitlines():
        if not line.startswith("  "):
            yield line.split()


def synsets(folder: Path, part: str) -> dict[str, list[str]]:
    """Offset of each synset, and its members."""
    found = {}
    for fields in records(folder / f"data.{part}"):
        words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        found[fields[0]] = [SYNTACTIC_MARKER.sub("", word).replace("_", " ") for word in words]
    return found


def usage(folder: Path) -> Counter[tuple[str, str]]:
    """How often the tagged texts use a lemma as a part of speech."""
    counts: Counter[tuple[str, str]] = Counter()
    for key, _, count in records(folder / "cntlist.rev"):
        lemma, sense = key.split("%")
        counts[lemma, SENSE_TYPES[sense[0]]] += int(count)
    return counts


def entries(folder: Path) -> Iterator[str]:
    """The lines of the synonym table."""
    counts = usage(folder)
    for part, letter in PARTS.items():
        members = synsets(folder, part)
        for fields in records(folder / f"index.{part}"):
            lemma, senses = fields[0], fields[-int(fields[2]) :]
            if not SINGLE_WORD.fullmatch(lemma):
                continue
            synonyms = (
                "|".join(word for word in members[sense] if word != lemma) for sense in senses
            )
            text = ";".join(filter(None, synonyms))
            yield f"{lemma}\t{letter}\t{counts[lemma, letter]}\t{text}"


def exceptions(folder: Path) -> Iterator[str]:
    """The lines of the table of irregular forms."""
    for part, letter in PARTS.items():
        for form, *lemmas in records(folder / f"{part}.exc"):
            singles = [lemma for lemma in lemmas if SINGLE_WORD.fullmatch(lemma)]
            if SINGLE_WORD.fullmatch(form) and singles:
                yield f"{form}\t{letter}\t{'|'.join(singles)}"


def write(path: Path, lines: Iterator[str]) -> None:
    """Write the sorted lines, compressed, with no time stamp: the same input, the same bytes."""
    text = "".join(f"{line}\n" for line in sorted(lines))
    path.write_bytes(gzip.compress(text.encode("ascii"), 9, mtime=0))
    print(f"{path}: {text.count(chr(10))} lines, {path.stat().st_size} bytes")


if __name__ == "__main__":
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    write(target / "wordnet.tsv.gz", entries(source))
    write(target / "exceptions.tsv.gz", exceptions(source))
