from __future__ import annotations

import pytest

from pipeline.report import markdown_text
from pipeline.report.markdown_text import escaped, grid, shortened


def test_long_texts_are_cut_before_they_are_written():
    assert escaped("x" * 1000) == "x" * (markdown_text.LONGEST - 1) + "…"
    assert escaped("|" * markdown_text.LONGEST) == "\\|" * markdown_text.LONGEST


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("a\n\n# b\tc", "a &#35; b c"),
        ("see #12, $x$", "see &#35;12, &#36;x&#36;"),
        ("https://a.b www.a.b", "https:<!-- -->//a.b www<!-- -->.a.b"),
        ("&lt;", "&amp;lt;"),
        ("\\|", "\\\\\\|"),
        ("`x` [y](z) *b* ~~s~~", "\\`x\\` \\[y](z) \\*b\\* \\~\\~s\\~\\~"),
        ("mail @team", "mail @<!-- -->team"),
    ],
)
def test_what_markdown_would_read_is_written_out(given, written):
    assert escaped(given) == written


def test_a_shortened_list_counts_what_it_leaves_out():
    assert shortened(["a", "b", "c"], 3, "lines", "there") == ["a", "b", "c"]
    assert shortened(["a", "b", "c", "d"], 3, "lines", "there") == ["a", "b", "- and 2 more lines, in there"]
    with pytest.raises(ValueError, match="room for the line"):
        shortened(["a"], 0, "lines", "there")


def test_a_grid_takes_cells_as_they_are():
    assert grid(["A", "B"], [["**a**", "b\\|"]]) == ["| A | B |", "| --- | --- |", "| **a** | b\\| |"]
