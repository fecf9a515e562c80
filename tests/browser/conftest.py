"""The report of a synthetic project in a real browser, headless."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_project import variants, with_two_sets
from synthetic import ENVIRONMENT, Build
from unit.conftest import RAW_PARAMS, Project

from pipeline.metrics.evidence import VariantEvidence
from pipeline.report import html
from pipeline.report.analysis import analyse

try:
    from playwright import sync_api
except ImportError:
    sync_api = None
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
BUILD = Build(ENVIRONMENT)
PATIENCE_MS = 20_000
"""For a busy machine; a test that passes takes a fraction of it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """report.html of a project with hostile answers, a failed variant, missing values, long names and many flips."""
    return written(tmp_path_factory.mktemp("project"), with_two_sets(copy.deepcopy(RAW_PARAMS)), variants(BUILD))


@pytest.fixture(scope="session")
def crowded_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of eleven variants, all but one of which are dominated."""
    slower = [BUILD.evidence(f"slow-{n}", [1.0] * 30, tpot_s=0.06 + 0.01 * n) for n in range(10)]
    return written(
        tmp_path_factory.mktemp("crowded"), copy.deepcopy(RAW_PARAMS), [BUILD.evidence("fp16", [1.0] * 30), *slower]
    )


def written(folder: Path, raw: dict[str, Any], evidence: list[VariantEvidence]) -> Path:
    before = Path.cwd()
    os.chdir(folder)
    try:
        page = html.render(analyse(Project(folder, BUILD, raw).write(*evidence)))
    finally:
        os.chdir(before)
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def chromium() -> Iterator[object]:
    if sync_api is None:
        pytest.skip("needs playwright: pip install 'quantgate[dev]'")
    if CHROMIUM is None:
        pytest.skip("needs a chromium on the PATH: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        # The sandbox needs rights that containers seldom give; the page is our own.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


Visit = Callable[..., "sync_api.Page"]


@pytest.fixture
def visit(chromium, report) -> Iterator[Visit]:
    """Open the report; the test fails when it asked for anything but itself, or said anything on the console."""
    contexts, said, asked = [], [], []

    def visit(width: int = 1280, theme: str = "light", path: Path = report, **options) -> sync_api.Page:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            page.wait_for_selector("#tradeoff-2 svg")
            page.wait_for_selector("#chart-categories svg")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert said == []
    assert asked == []
