"""Markdown from texts that may hold anything: names, reasons and a model's answers."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 400
"""Characters of one cell or line; what is longer is cut. A comment on a pull request holds 65,536."""


def grid(header: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """A table of cells that are Markdown already; see `escaped`."""
    return [f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *body)]


def escaped(text: str) -> str:
    """Text in one line that can neither end a table cell, start HTML, a link, an image, code or a
    formula, nor name a user or an issue."""
    flat = " ".join(text.split())
    cut = flat if len(flat) <= LONGEST else f"{flat[: LONGEST - 1]}…"
    for character, written in _WRITTEN.items():
        cut = cut.replace(character, written)
    return cut


_WRITTEN = {
    "&": "&amp;",
    "<": "&lt;",
    "\\": "\\\\",
    "|": "\\|",
    "`": "\\`",
    "[": "\\[",
    "*": "\\*",
    "~": "\\~",
    "@": "@<!-- -->",
    "#": "&#35;",
    "$": "&#36;",
    "://": ":<!-- -->//",
    "www.": "www<!-- -->.",
}
"""In this order: what stands first is not written by what follows."""


def shortened(lines: Sequence[str], most: int, what: str, where: str) -> list[str]:
    """At most so many lines; the last one then says how many more there are, and where.

    Raises:
        ValueError: there is no room for even that line.
    """
    if most < 1:
        raise ValueError("a list needs room for the line that says what was left out")
    if len(lines) <= most:
        return list(lines)
    left = len(lines) - most + 1
    return [*lines[: most - 1], f"- and {left:,} more {what}, in {where}"]
