"""A browser, a running service, and pages that must not complain."""

import os
import shutil

import pytest

from running_server import Server

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SMALL = """
[collections.tangram]
candidates = 400
mode = "live"
keep_queries = 8
"""


@pytest.fixture(scope="session")
def chromium():
    """Debian's browser, without a window."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox"] if os.getuid() == 0 else [],
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def service(chromium, tmp_path_factory):
    """The embedded world, served."""
    with Server(tmp_path_factory.mktemp("served"), SMALL) as running:
        yield running


@pytest.fixture
def opened(chromium):
    """Opens an address in a page of its own; the page must log no error and break no policy."""
    contexts, complaints = [], []

    def open_page(url, width=1200, height=900, scheme="light"):
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: complaints.append(line.text) if is_bad(line) else None)
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints


def is_bad(line):
    """Whether a line of the browser's log is an error; refusals by the service are the tests'."""
    return line.type == "error" and "Failed to load resource" not in line.text
