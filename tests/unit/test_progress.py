from __future__ import annotations

import pytest

from pipeline import progress
from pipeline.progress import MARK, Progress


def test_what_is_reported_is_parsed_back(capsys: pytest.CaptureFixture[str]) -> None:
    print("50%|####", end="")  # a library's bar without its line end
    progress.report(3, 12, "layers")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "50%|####"
    assert progress.parse(lines[1]) == Progress(done=3, total=12, what="layers")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "loading weights",
        "{}",
        MARK,
        MARK + "{",
        MARK + '{"done": 1, "total": 2, "wh 50%|###',
        MARK + '{"done": 1, "total": 2, "what": "x"} 50%|###',
        MARK + '{"done": 1, "total": 2}',
        MARK + '{"done": 1, "total": 2, "what": "x", "more": 1}',
        MARK + "[1, 2]",
        " " + MARK + '{"done": 1, "total": 2, "what": "x"}',
    ],
)
def test_any_other_line_is_no_progress(line: str) -> None:
    assert progress.parse(line) is None
