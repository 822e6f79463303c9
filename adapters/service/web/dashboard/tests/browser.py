"""A real browser for the tests: Debian's chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from adapters.service.tests.process import Running

SCREENSHOTS = Path(__file__).parents[5] / ".screenshots"
"""Where the tests leave pictures of the page; git ignores it."""

PATIENCE = 30_000
"""Milliseconds until an expected state counts as missing, on a machine that does much else."""

expect.set_options(timeout=PATIENCE)

NAMES = ("chromium", "chromium-browser", "google-chrome")

ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage", "--font-render-hinting=none")
"""Tests run as root in containers, where chromium's own sandbox does not start."""


def executable() -> str:
    """The browser; without one the test is skipped, and on CI, which installs one, it fails."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        reason = "no chromium: apt-get install chromium"
        if "CI" in os.environ:
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    path = executable()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS])
        yield browser
        browser.close()


class Visit:
    """One tab, which fails the test if the page logs an error or breaks its own policy."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        viewport = options.pop("viewport", {"width": 1280, "height": 900})
        context = browser.new_context(viewport=viewport, **{"locale": "en-US", **options})
        self.address = address
        context.set_default_timeout(PATIENCE)
        self.page: Page = context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console",
            lambda said: self.errors.append(said.text) if said.type == "error" else None,
        )

    def open(self, route: str = "") -> Page:
        """Open a view and wait until it is drawn."""
        self.page.goto(f"{self.address}/{route}")
        return self.drawn()

    def drawn(self) -> Page:
        """Wait until the view is drawn."""
        self.page.wait_for_selector("body[data-state=live]")
        self.page.wait_for_selector("main:not([aria-busy])")
        return self.page

    def again(self) -> Page:
        """Ask now, as the page does when it comes into view, and wait for the answer."""
        with self.page.expect_response("**/api/dashboard/summary*"):
            self.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        return self.page

    def picture(self, name: str) -> None:
        """Keep a screenshot."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")

    def close(self) -> None:
        """Close the tab."""
        self.page.context.close()


@contextmanager
def visiting(browser: Browser, service: Running, **options: Any) -> Iterator[Visit]:
    """A tab, which must have logged no error when it closes."""
    visit = Visit(browser, service.address, **options)
    try:
        yield visit
    finally:
        visit.close()
    assert visit.errors == []
