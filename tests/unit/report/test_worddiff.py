from __future__ import annotations

from difflib import SequenceMatcher

from hypothesis import given
from hypothesis import strategies as st

from pipeline.report import worddiff
from pipeline.report.worddiff import changed


def parts(text: str, ranges: list[tuple[int, int]]) -> list[str]:
    units = text.encode("utf-16-le")
    return [units[2 * start : 2 * end].decode("utf-16-le") for start, end in ranges]


def of(before: str, after: str) -> tuple[list[str], list[str]]:
    removed, added = changed(before, after)
    return parts(before, removed), parts(after, added)


def test_words_are_compared_whole():
    assert of("the parcel comes on Monday", "the parcels come on Monday") == (["parcel comes"], ["parcels come"])


def test_what_was_only_added_marks_nothing_before():
    assert of("Yes.", "Yes, of course.") == ([], [", of course"])


def test_chinese_is_compared_by_characters():
    assert of("包裹星期一到", "包裹星期五到") == (["一"], ["五"])


def test_a_latin_word_beside_chinese_is_a_word():
    assert of("用USB线充电", "用USBC线充电") == (["USB"], ["USBC"])


def test_places_are_counted_as_a_browser_does():
    removed, added = changed("😀 yes", "😀 no")
    assert (removed, added) == ([(3, 6)], [(3, 5)])


def test_an_end_of_line_is_a_change_and_other_blanks_are_none():
    assert of("a b c", "a  b\nc") == ([], ["\n"])


def test_parts_end_with_their_words():
    assert of("one two three", "one 2 three") == (["two"], ["2"])


def test_long_texts_are_compared_in_bounded_time(monkeypatch):
    """Beyond `EXACT_PAIRS` difflib's shortcut is taken; the beginning and the end that both share do not count."""
    asked = []

    class Counting(SequenceMatcher):
        def __init__(self, junk, ours, theirs, autojunk):
            asked.append((len(ours), len(theirs), autojunk))
            super().__init__(junk, ours, theirs, autojunk)

    monkeypatch.setattr(worddiff, "SequenceMatcher", Counting)
    same = "begin " * 5000
    assert of(f"{same} yes {same}", f"{same} no {same}") == (["yes"], ["no"])
    before, after = "never again " * 3000, "not ever again " * 3000
    assert changed(before, after)[1]
    assert asked == [(1, 1, False), (5999, 8999, True)]


@given(st.text(), st.text())
def test_without_the_changed_parts_both_say_the_same_words(before, after):
    removed, added = changed(before, after)
    assert rest(before, removed).split() == rest(after, added).split()


def rest(text: str, ranges: list[tuple[int, int]]) -> str:
    units, kept, end = text.encode("utf-16-le"), b"", 0
    for start, stop in ranges:
        kept += units[2 * end : 2 * start] + " ".encode("utf-16-le")
        end = stop
    return (kept + units[2 * end :]).decode("utf-16-le")
