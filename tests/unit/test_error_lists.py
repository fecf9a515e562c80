from __future__ import annotations

from pipeline.error_lists import shortened


def test_up_to_four_of_a_kind_are_told_in_full() -> None:
    problems = [f"a.jsonl:{line}: lacks 'target'" for line in (1, 2, 3, 4)]
    assert list(shortened(problems)) == problems


def test_more_of_a_kind_are_counted_and_other_kinds_keep_their_place() -> None:
    category = [f"a.jsonl:{line}: category 'c{line}' is not in card.yaml" for line in range(1, 7)]
    target = [f"a.jsonl:{line}: lacks 'target'" for line in range(1, 3)]
    problems = [category[0], target[0], category[1], target[1], *category[2:], "disk: full"]
    assert list(shortened(problems)) == [
        category[0],
        target[0],
        category[1],
        target[1],
        f"{category[2]} (and 3 more like this)",
        "disk: full",
    ]
