"""Every number on the way of a default batch: of the policy, or known here with its reason.

A literal that is neither fails: give it a name in `policy.CONSTANTS`, or a reason here.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tools.trace_batch import Trace

import queryshift
from miniature import Toy, items, stream
from queryshift import Gallery, Session
from queryshift.retrieval.uncertainty import LATEST
from queryshift.sessions.policy import CONSTANTS

HOME = Path(queryshift.__file__).parent
HARMLESS = ("0", "1", "2", "0.0", "1.0")  # and -1, which is a minus before a 1
AXES = ("dim", "ndim", "digest_size")  # keywords whose values are no quantities

OF_POLICY = {
    "retrieval/uncertainty.py": {
        "FIRST": "first",
        "BEST": "best",
        "SURE": "sure",
        "LATEST": "latest",
    },
    "sessions/guard.py": {
        "Guard.collapse": "collapse",
        "Guard.spread": "spread",
    },
    "methods/infomax.py": {"InfoMax.part": "part"},
    "sessions/session_settings.py": {"Settings.steps": "steps"},
    "retrieval/answer.py": {"SHORTLIST": "shortlist"},
    "retrieval/hubness/hub_correction.py": {"Hubs.bank": "bank"},
    "sessions/policy.py": {"MOST": "most", "MOVE": "move"},
}
"""Where each of `CONSTANTS` is written down."""

PIECES = "how work is cut into pieces: sums and searches are the same, but for rounding"
IDENTITY = "names of models, galleries and queries, not quantities"
REFUSED = "what is refused as no input; what is accepted is not changed by it"
STATISTICS = "statistics of a batch, which no answer is computed from"
OTHERS = "other methods and matchers: a default session has none"
ROUNDING = "keeps a quotient, root or logarithm finite; far below what float32 resolves here"

SAFEGUARDS = {
    "galleries/candidate_checks.py": {
        "LENGTH_TOLERANCE EPSILONS MAPPED_LENGTHS": REFUSED,
        "LOOKED_AT_ONCE": PIECES,
    },
    "galleries/clusters.py": {"_spread():1e-12": ROUNDING},
    "galleries/memory/exact_gallery.py": {
        "ExactGallery.version():256": IDENTITY,
        "DEAD_SHARE": PIECES,
    },
    "galleries/memory/exact_search.py": {
        "CHUNK_SCORES MOST_CHUNKS PIECE_SCORES LEAST_PIECE PIECE_VALUES GPU_THREADS "
        "PADDING GROUP LEAST FEW": PIECES
    },
    "encoders/frozen_module.py": {"FrozenModule.fingerprint():256": IDENTITY},
    "methods/base.py": {"Method.fallback Method.weight_decay": OTHERS, "LARGEST_COUNT": REFUSED},
    "methods/infomax.py": {
        "SMALLEST_SPREAD": ROUNDING,
        "InfoMax.fallback": "the rate is the stream's, the encoder's or the user's",
        "InfoMax.tau():0.02": "for wrappers: a default session has none",
        "InfoMax.step_share():0.5 InfoMax.gradient():0.5": "the root: the rule itself, no quantity",
    },
    "methods/losses.py": {"TINY": ROUNDING, "LIMIT_MARGIN": OTHERS},
    "methods/optimiser.py": {"Adapted.updated():0.5": "a half is the root, as published"},
    "methods/source_like.py": {
        "FollowsSource.queue_share FollowsSource.queue_batches FollowsSource.fallback": OTHERS
    },
    "retrieval/answer.py": {"BEHIND": "more than scores differ by: the order is the same"},
    "retrieval/hubness/hub_correction.py": {
        "BEHIND": "more than scores differ by: the order is the same"
    },
    "retrieval/hubness/query_bank.py": {
        "AT_ONCE CACHED AHEAD MOST_AHEAD": PIECES,
        "SMALLEST_SPREAD STEEPEST": ROUNDING,
    },
    "retrieval/refinement.py": {"refine():10 refine():0.02": STATISTICS},
    "retrieval/reranking.py": {"UNMATCHED": OTHERS},
    "retrieval/uncertainty.py": {
        "chances():4": "half a doubt, of half the chance",
        "MIXER keys_of():29 _mixers():16": IDENTITY,
    },
    "retrieval/forward.py": {"UNIT_TOLERANCE": REFUSED},
    "sessions/batch_stats.py": {
        "NEIGHBOURS TEMPERATURE WATCHED_BATCHES WATCHED_SHARE WATCHED_PAIRS": STATISTICS
    },
    "sessions/updater.py": {"AT_ONCE": "hits that are searched for early, more if more are asked"},
    "sessions/step.py": {
        "SEED_STRIDE step_view():64 step_view():32": "seeds: the default draws nothing at random",
        "_rate_of_stream():10 _rate_of_stream():0.1": "how far one probe goes, not where they end",
    },
    "sessions/policy.py": {"PROBES FIRST_RATE": "how the rate is looked for, not which it is"},
    "sessions/session.py": {
        "Session.__init__():3 Session.__init__():100 Session.__init__():65536": "as in Settings"
    },
    "sessions/session_settings.py": {"Settings.history": STATISTICS},
    "support/threads.py": {"MAX_WAIT_S": "seconds"},
}
"""Numbers that change no answer beyond rounding, with the reason."""

ENGINES = "only for galleries in an engine, or larger than memory is searched whole"

OUTSIDE = {
    "methods/infomax.py": {
        "FLOOR": "of a mean probability: seen where galleries have 10,000 candidates and more",
        "InfoMax.neighbours": ENGINES,
    },
    "methods/optimiser.py": {"BETAS EPSILON": "Adam's, as published"},
    "galleries/clusters.py": {"SAMPLE ITERATIONS": "how exactly centres are known"},
    "retrieval/hubness/hub_correction.py": {"Hubs.depth": ENGINES},
    "retrieval/hubness/query_bank.py": {
        "STEPS": "how exactly the spread is known: within 5 %, so that sums stay valid",
        "LEAST": "what is left of a sum of which as good as all is a candidate's own",
    },
    "retrieval/hubness/engine_sums.py": {"CENTRES": ENGINES},
    "galleries/memory/exact_search.py": {"WHOLE": ENGINES},
    "retrieval/pool.py": {"DEPTH": ENGINES},
    "sessions/policy.py": {"CENTRES": "how exactly the gallery's spread is known"},
}
"""Numbers that can change an answer and that the policy does not count as its own."""


def literals(text: str) -> Iterator[tuple[str, float]]:
    """Numbers in a file, each with the name that it is assigned to, or function and number."""

    def within(node: ast.AST, place: str) -> Iterator[tuple[str, float]]:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            if repr(node.value) not in HARMLESS:
                yield f"{place}:{node.value:g}" if place.endswith("()") else place, node.value
        elif (isinstance(node, ast.keyword) and node.arg in AXES) or (
            isinstance(node, ast.Compare) and ast.unparse(node.left).endswith("ndim")
        ):
            return
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and top(place):
            values = node.value.elts
            for target, value in zip(node.targets[0].elts, values, strict=True):
                yield from within(value, joined(place, ast.unparse(target)))
        else:
            inside = place
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                inside = joined(place, node.name)
                inside += "()" if isinstance(node, ast.FunctionDef) else ""
            elif isinstance(node, ast.Assign) and top(place):
                inside = joined(place, ast.unparse(node.targets[0]))
            elif isinstance(node, ast.AnnAssign) and top(place):
                inside = joined(place, ast.unparse(node.target))
            for child in ast.iter_child_nodes(node):
                yield from within(child, inside)

    def joined(place: str, name: str) -> str:
        return f"{place}.{name}" if place else name

    def top(place: str) -> bool:
        """Whether it is no function's own variable: those are found by their function."""
        return not place.endswith("()")

    return within(ast.parse(text), "")


@pytest.fixture(scope="module")
def passed() -> set[str]:
    """The files that batches of a default session pass through, and the settings' defaults."""
    clean, encoder = items(120), Toy()
    session = Session(encoder, Gallery.build(encoder, clean))
    session.restore(replace(session.state, chances=torch.ones(LATEST)))

    def stream_of() -> None:
        for batch in stream(clean, 2):
            session.answer([*batch, batch[0]]).top(10)
        session.answer(batch, adapt=False).top(10)

    files = set(Trace(f"{HOME}/").of(stream_of).files)
    assert session.state.adapted.updates == 6 and session.state.rate > 0
    return files | {"sessions/session_settings.py", "sessions/guard.py"}


def known(table: dict[str, dict[str, str]]) -> dict[tuple[str, str], str]:
    return {
        (file, name): reason
        for file, places in table.items()
        for names, reason in places.items()
        for name in names.split()
    }


def test_a_default_batch_passes_the_files_of_every_rule(passed):
    wanted = {"policy", "step", "batch_stats", "state"}
    assert {f"sessions/{name}.py" for name in wanted} <= passed
    wanted = {"answer", "uncertainty", "hubness/hub_correction", "hubness/query_bank"}
    assert {f"retrieval/{name}.py" for name in wanted} <= passed


def test_every_number_is_the_policy_s_or_has_a_reason(passed):
    reasons = known(OF_POLICY) | known(SAFEGUARDS) | known(OUTSIDE)
    found = {
        (file, place): value
        for file in passed
        for place, value in literals((HOME / file).read_text(encoding="utf-8"))
    }
    strange = {place: value for place, value in found.items() if place not in reasons}
    assert strange == {}
    gone = {place for place in reasons.keys() - found.keys() if place[0] in passed}
    assert gone == set()  # a reason for a number that is no more


def test_each_constant_is_written_down_once(passed):
    places = [name for names in known(OF_POLICY).values() for name in names.split()]
    assert sorted(places) == sorted(CONSTANTS)
    values = {
        (file, place): value
        for file in OF_POLICY
        for place, value in literals((HOME / file).read_text(encoding="utf-8"))
    }
    for (file, place), names in known(OF_POLICY).items():
        for name in names.split():
            assert values[file, place] == pytest.approx(CONSTANTS[name])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A = 7", [("A", 7)]),
        ("A, B = 0.5, 3", [("A", 0.5), ("B", 3)]),
        ("class C:\n    x: float = setting(0.25, '')", [("C.x", 0.25)]),
        ("def f(x=9):\n    y = x * -5\n    return y.sum(dim=3)", [("f():9", 9), ("f():5", 5)]),
        ("class C:\n    def f(self):\n        return self.v.ndim != 3 or 44", [("C.f():44", 44)]),
        ("A = x[-1] + 2 * y[0]", []),
        ("A = 2.0", [("A", 2.0)]),
    ],
)
def test_numbers_are_found_where_they_stand(text, expected):
    assert list(literals(text)) == expected
