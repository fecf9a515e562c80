"""The explorer of changed items."""

from __future__ import annotations

from hostile_project import CHINESE_SET, LONG, LOST, WON

ALL = LOST + WON + 2 + 3 + 2
"""int8 and the long name each lose two items in Chinese."""


def status(page):
    return page.locator("#flip-status").text_content()


def choose(page, name, value):
    page.locator(f"#flip-filters [name={name}]").select_option(value)


def test_critical_lost_items_come_first_and_a_few_at_a_time(visit):
    page = visit()
    assert status(page) == f"{ALL} of {ALL} changed items."
    assert page.locator("#flip-list > li").count() == 10
    first = page.locator("#flip-list summary").first.text_content()
    assert "lost" in first
    assert "critical" in first
    page.locator("#flip-more").click()
    assert page.locator("#flip-list > li").count() == 20
    assert page.locator("#flip-list > li").nth(10).locator("summary").evaluate("it => it === document.activeElement")


def test_filters_narrow_what_is_shown(visit):
    page = visit()
    choose(page, "variant", LONG)
    assert status(page) == f"5 of {ALL} changed items."
    choose(page, "set", CHINESE_SET)
    assert status(page) == f"2 of {ALL} changed items."
    assert page.locator("#flip-filters [name=category] option").all_text_contents() == ["all", "配送"]
    choose(page, "variant", "")
    choose(page, "set", "")
    choose(page, "change", "won")
    assert status(page) == f"{WON} of {ALL} changed items."
    choose(page, "change", "critical")
    assert status(page) == f"6 of {ALL} changed items."
    choose(page, "change", "all")
    choose(page, "category", "配送")
    assert status(page) == f"4 of {ALL} changed items."


def test_text_is_searched_in_prompts_and_answers(visit):
    page = visit()
    search = page.locator("#flip-filters [name=text]")
    search.fill("WHERE IS PARCEL 42?")
    assert status(page) == f"1 of {ALL} changed items."
    search.fill("星期五")
    assert status(page) == f"4 of {ALL} changed items."
    search.fill("no such words")
    assert status(page) == f"0 of {ALL} changed items."
    assert page.locator("#flip-list > li").count() == 0
    assert not page.locator("#flip-more").is_visible()


def test_an_item_shows_both_answers_and_what_differs(visit):
    page = visit()
    page.locator("#flip-filters [name=text]").fill("parcel 0?")
    card = page.locator("#flip-list > li").first
    assert card.locator("del").all_text_contents() == ["on Monday"]
    assert card.locator("ins").first.text_content() == "never"
    text = card.text_content()
    for words in ("Where is parcel 0?", "answer: Monday", "fp16 said (score 1)", "score 0, cut off at its token limit"):
        assert words in text, words


def test_chinese_is_compared_by_characters(visit):
    page = visit()
    choose(page, "set", CHINESE_SET)
    card = page.locator("#flip-list > li").first
    assert card.locator("del").all_text_contents() == ["一"]
    assert card.locator("ins").all_text_contents() == ["五"]


def test_the_page_s_variants_count_here_too(visit):
    page = visit()
    choose(page, "variant", "int8")
    page.locator("#variants").get_by_label("int8").uncheck()
    assert status(page).startswith(f"0 of {ALL} changed items. int8 is hidden")


def test_items_open_by_keyboard(visit):
    page = visit()
    second = page.locator("#flip-list details").nth(1)
    assert second.get_attribute("open") is None
    second.locator("summary").focus()
    page.keyboard.press("Enter")
    second.locator("pre").first.wait_for()
