"""A plugin of pytest that records which lines of the source each test runs, and for how long.

Of a test with many parameters a few cases are recorded. Lines that run while a shared fixture is
set up count for every test that uses the fixture. What other processes run is not seen.
"""

import os
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

Lines = dict[str, set[int]]
CASES = 3  # of one test that are recorded


class LineRecorder:
    """Keeps the lines that run in the set that is open at that moment.

    Args:
        home: The folder of the source to watch.

    Attributes:
        tests: For each test that passed, its seconds and its lines by file.
    """

    def __init__(self, home: Path) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        self._home = str(home) + os.sep
        self._open: list[Lines] = [defaultdict(set)]
        self._fixtures: dict[str, Lines] = {}
        self._not_passed = set[str]()

    def _called(self, frame: FrameType, event: str, _: Any) -> Any:
        path = frame.f_code.co_filename
        if not path.startswith(self._home):
            return None
        lines = self._open[-1][path[len(self._home) :]]
        lines.add(frame.f_lineno)

        def ran(frame: FrameType, event: str, _: Any) -> Any:
            lines.add(frame.f_lineno)
            return ran

        return ran

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out most cases of a test with many."""
        cases = defaultdict[str, list[pytest.Item]](list)
        for item in items:
            cases[function_of(item.nodeid)].append(item)
        items[:] = [
            item for some in cases.values() for item in some[:: max(1, -(-len(some) // CASES))]
        ]

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Any:
        """Keep a shared fixture's lines."""
        if fixturedef.scope == "function":
            return (yield)
        self._open.append(defaultdict(set))
        try:
            return (yield)
        finally:
            lines = self._open.pop()
            _join(self._fixtures.setdefault(fixturedef.argname, defaultdict(set)), lines)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Watch a test, in this thread and those it starts."""
        self._open.append(defaultdict(set))
        threading.settrace(self._called)
        sys.settrace(self._called)
        started = time.monotonic()
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            lines, seconds = self._open.pop(), round(time.monotonic() - started, 3)
            for name in getattr(item, "fixturenames", ()):
                _join(lines, self._fixtures.get(name, {}))
            if item.nodeid not in self._not_passed:  # those that do not can notice nothing
                shown = {path: sorted(some) for path, some in sorted(lines.items())}
                self.tests[item.nodeid] = {"seconds": seconds, "lines": shown}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Look whether a test passed."""
        if not report.passed:
            self._not_passed.add(report.nodeid)


def function_of(test: str) -> str:
    """The name of a test without its case."""
    return test.partition("[")[0]


def _join(lines: Lines, more: Lines) -> None:
    for path, some in more.items():
        lines[path] |= some
