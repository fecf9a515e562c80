"""What every visitor of report.html is promised: it is whole, quiet, fits, and can be read by anyone."""

from __future__ import annotations

import pytest
from hostile_project import ATTACKS, LONG
from synthetic import EVAL_SET

THEMES = ("light", "dark")
WIDTHS = (390, 1280)


def open_everything(page):
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    page.locator("#flip-list details:not(:has(.body))").first.wait_for(state="detached")


def test_one_file_is_small_and_asks_for_nothing(visit, report):
    """Requests and console messages are looked at when `visit` ends, in each of these tests."""
    visit()
    assert report.stat().st_size < 6_000_000


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_serious(visit, width, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    page = visit(width, theme)
    open_everything(page)
    found = axe.Axe().run(page).response["violations"]
    serious = [
        (violation["id"], [node["html"][:200] for node in violation["nodes"][:3]])
        for violation in found
        if violation["impact"] in ("serious", "critical")
    ]
    assert serious == []


@pytest.mark.parametrize("width", [320, *WIDTHS])
def test_the_page_does_not_scroll_sideways(visit, width):
    page = visit(width)
    open_everything(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.body.scrollWidth") <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_the_first_screen_holds_the_decision_and_why(visit, width):
    page = visit(width)
    for words in ("#headline", "#decision .stack tbody tr:first-child .why"):
        box = page.locator(words).bounding_box()
        assert box["y"] + box["height"] <= page.viewport_size["height"], words


def test_model_output_is_text(visit):
    page = visit()
    page.locator("#flip-filters [name=set]").select_option(EVAL_SET)
    for _ in range(3):
        page.locator("#flip-more").click()
    open_everything(page)
    answers = page.locator("#flip-list pre").all_text_contents()
    for attack in ATTACKS:
        assert any(attack in answer for answer in answers), attack
    assert page.evaluate("window.hacked") is None
    assert page.locator("#flip-list script, #flip-list img").count() == 0
    assert ATTACKS[1] in page.locator("#failures").text_content()


def test_without_scripts_the_decision_and_the_tables_are_there(visit):
    page = visit(java_script_enabled=False)
    assert page.locator("#headline").is_visible()
    assert page.locator("#main-table tbody tr").count() == 4
    assert page.locator("#flips tbody tr").count() == 3
    for hidden in ("#variants", "#theme", "#flip-filters"):
        assert not page.locator(hidden).is_visible(), hidden
    assert page.locator("#flips noscript p").is_visible()


@pytest.mark.parametrize(("theme", "other"), [("light", "dark"), ("dark", "light")])
def test_the_theme_can_be_changed_and_stays(visit, theme, other):
    page = visit(theme=theme)
    shade = "getComputedStyle(document.body).backgroundColor"
    paper = {"light": "rgb(250, 250, 248)", "dark": "rgb(17, 20, 24)"}
    assert page.evaluate(shade) == paper[theme]
    page.get_by_role("button", name="Dark").press("Enter")
    assert page.evaluate(shade) == paper[other]
    page.reload()
    assert page.evaluate(shade) == paper[other]
    assert page.get_by_role("button", name="Dark").get_attribute("aria-pressed") == str(other == "dark").lower()


def test_a_missing_number_tells_its_reason_by_keyboard(visit):
    page = visit()
    cell = page.locator("#main-table tr", has_text="int4-awq").locator("summary").first
    cell.focus()
    page.keyboard.press("Enter")
    assert page.locator("#main-table .reason[open] span").first.is_visible()


def test_the_navigation_leads_to_every_section(visit):
    """Without its animation; the heading stands below the bar that stays, or the page has come to its end."""
    page = visit(reduced_motion="reduce")
    for link in page.locator("nav a").all():
        link.click()
        bar = page.locator(".bar").bounding_box()
        top = page.locator(link.get_attribute("href")).locator("h1, h2").first.bounding_box()["y"]
        assert bar["y"] + bar["height"] <= top < page.viewport_size["height"], link.text_content()


def test_a_long_name_breaks_nothing(visit):
    page = visit(390)
    assert page.locator("#decision", has_text=LONG).is_visible()
