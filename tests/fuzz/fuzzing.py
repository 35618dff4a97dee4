"""What all fuzz tests share: how many inputs they try, and what a refusal may be."""

import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import wraps
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from queryshift import Error

QUICK = 40  # inputs of a test in `make test`; `make fuzz` sets others
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", QUICK))
REFUSALS = (Error, TypeError, ValueError)
TRIED: dict[str, Counter[str]] = defaultdict(Counter)
_MET: Counter[str] = Counter()


def fuzzed(share: float = 1.0, **inputs: Any) -> Callable[[Any], Any]:
    """A test over drawn inputs; `share` is below 1 where one input takes long.

    An input counts when its test came to an end, and as refused when a call refused it. Without
    `FUZZ_EXAMPLES` the same inputs are drawn each time, so that `make test` is the same test each
    time; with it they are others for each `--hypothesis-seed`.
    """

    def decorate(test: Any) -> Any:
        name = f"{test.__module__.removeprefix('test_fuzz_')}: {test.__name__}"

        @wraps(test)
        def counted(*args: Any, **drawn: Any) -> None:
            before = _MET["refusals"]
            test(*args, **drawn)
            TRIED[name]["inputs"] += 1
            TRIED[name]["refused"] += _MET["refusals"] > before

        chosen = settings(
            max_examples=max(5, round(share * EXAMPLES)),
            deadline=None,
            database=None,
            derandomize="FUZZ_EXAMPLES" not in os.environ,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.explicit, Phase.generate, Phase.shrink),
            print_blob=True,
        )
        return chosen(given(**inputs)(counted))

    return decorate


def attempt(call: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """What a call gives, or the error by which it refuses; any other error fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*args, **named)
        except REFUSALS as error:
            assert len(str(error).split()) > 3, f"no sentence: {error!r}"
            note_refusal()
            return error


def note_refusal() -> None:
    """Count the input at hand as one that was refused."""
    _MET["refusals"] += 1


def refused(found: Any) -> bool:
    """Whether what `attempt` gave is a refusal."""
    return isinstance(found, REFUSALS)
