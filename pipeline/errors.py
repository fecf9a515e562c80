"""Errors meant for the user: they say what was given, what is allowed and what to do, without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class UserError(Exception):
    """One or more mistakes a user can mend. Printed as they are, without a traceback."""

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class WorkError(UserError):
    """A mistake that shows only at work: in a worker, or in making the environment that it needs.

    Work for one variant ends with it: that variant's record tells it, and the others go on.
    """


def nearest(given: str, allowed: Sequence[object]) -> str:
    """The end of an error about an unknown name: a suggestion if one is near, else the allowed names."""
    if not allowed:
        return "nothing is allowed here"
    names = [str(name) for name in allowed]
    close = difflib.get_close_matches(given, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return "allowed: " + ", ".join(sorted(names))


REASON_LENGTH = 400


def brief(error: BaseException) -> str:
    """An exception as a reason: its type and the first line of its text, at most `REASON_LENGTH` characters."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= REASON_LENGTH else text[: REASON_LENGTH - 1] + "…"
