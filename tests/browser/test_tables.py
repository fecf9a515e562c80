"""Sorting, hiding columns, and filtering the whole page by variant."""

from __future__ import annotations

from hostile_project import LONG


def order(page):
    return [name.split("\n")[0].strip() for name in page.locator("#main-table tbody th").all_inner_texts()]


def header(page, name):
    return page.locator("#main-table thead").get_by_role("button", name=name, exact=False).first


def test_headers_sort_by_keyboard_best_first_then_worst_then_as_it_was(visit):
    page = visit()
    before = order(page)
    button = header(page, "Weights on disk")
    cell = button.locator("..")
    header(page, "TPOT P95").focus()
    page.keyboard.press("Tab")
    assert button.evaluate("button => button === document.activeElement")
    page.keyboard.press("Enter")
    assert cell.get_attribute("aria-sort") == "ascending"
    assert order(page) == [LONG, "int8", "fp16", "int4-awq"]
    page.keyboard.press("Enter")
    assert cell.get_attribute("aria-sort") == "descending"
    assert order(page) == ["fp16", "int8", LONG, "int4-awq"], "what is missing stays last"
    page.keyboard.press("Enter")
    assert cell.get_attribute("aria-sort") is None
    assert order(page) == before


def test_higher_is_better_sorts_the_largest_first(visit):
    page = visit()
    header(page, "Decode tokens/s").click()
    assert order(page) == [LONG, "fp16", "int8", "int4-awq"]
    assert page.locator("#main-table [aria-sort]").count() == 1
    header(page, "Variant").click()
    assert order(page) == ["fp16", "int4-awq", LONG, "int8"]
    assert page.locator("#main-table [aria-sort]").count() == 1


def test_rows_are_sorted_within_their_workload(visit):
    page = visit()
    table = page.locator("#workloads table").first
    table.get_by_role("button", name="Decode tokens/s").click()
    rows = table.locator("tbody").first.locator("tr")
    assert "group" in rows.first.get_attribute("class")
    assert rows.nth(1).locator("th").inner_text() == LONG


def test_a_column_can_be_hidden_and_shown(visit):
    page = visit()
    page.get_by_text("Columns of the table").click()
    box = page.locator("#table .columns").first.get_by_label("TTFT P50")
    column = page.locator("#main-table tr > :nth-child(8)")
    assert "TTFT P50" in column.first.text_content()
    assert column.first.is_visible()
    box.uncheck()
    assert not any(cell.is_visible() for cell in column.all())
    box.check()
    assert all(cell.is_visible() for cell in column.all())


def test_a_variant_can_be_hidden_on_the_whole_page(visit):
    page = visit()
    row = page.locator("#main-table tr[data-variant='int8']")
    column = page.locator("#memory th[data-variant='int8']").first
    page.locator("#variants").get_by_label("int8").uncheck()
    assert not row.is_visible()
    assert not column.is_visible()
    assert page.locator("#main-table tr[data-variant='fp16']").is_visible()
    assert page.locator("#variants-status").text_content() == "3 of 4 variants shown"
    assert page.locator("#flip-status").text_content() == "5 of 319 changed items."
    page.get_by_role("button", name="Show all").click()
    assert row.is_visible()
    assert column.is_visible()
    assert not page.get_by_role("button", name="Show all").is_visible()
