"""What all fuzz tests share: how many inputs they try, and what a refusal may be."""

import os
import warnings
from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from queryshift import Error

QUICK = 40  # inputs of a test in `make test`; `make fuzz` sets others
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", QUICK))
REFUSALS = (Error, TypeError, ValueError)
TRIED: Counter[str] = Counter()


def fuzzed(share: float = 1.0, **inputs: Any) -> Callable[[Any], Any]:
    """A test over drawn inputs; `share` is below 1 where one input takes long.

    Without `FUZZ_EXAMPLES` the same inputs are drawn each time, so that `make test` is the same
    test each time; with it they are others for each `--hypothesis-seed`.
    """

    def decorate(test: Any) -> Any:
        @wraps(test)
        def counted(*args: Any, **drawn: Any) -> None:
            TRIED[test.__name__] += 1
            test(*args, **drawn)

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
            return error


def refused(found: Any) -> bool:
    """Whether what `attempt` gave is a refusal."""
    return isinstance(found, REFUSALS)
