from __future__ import annotations

import pytest

from pipeline import levels
from pipeline.records import WorkloadPrompt


def prompt(workload: str, tokens: int, concurrency: int = 1, pairs: int = 4) -> WorkloadPrompt:
    return WorkloadPrompt(
        workload=workload,
        token_ids=list(range(tokens)),
        prompt_sha256="0" * 64,
        output_tokens=8,
        concurrency=concurrency,
        pairs=pairs,
    )


def sweep(workload: str, *concurrency: int) -> levels.Sweep:
    return levels.Sweep(workload=workload, concurrency=list(concurrency), pairs=3)


def test_levels_run_from_small_to_large() -> None:
    planned = levels.plan([prompt("long", 100), prompt("short", 5)], "long", sweep("short", 1, 2, 10))
    # In flight: 13 × 1, 13 × 2, 108 × 1, 13 × 10.
    assert [level.key for level in planned] == [("short", 1), ("short", 2), ("long", 1), ("short", 10)]
    assert [level.tokens for level in planned] == [13, 26, 108, 130]


def test_a_level_of_the_sweep_that_is_a_workload_s_own_is_measured_once_with_the_workload_s_pairs() -> None:
    planned = levels.plan([prompt("short", 5, concurrency=2, pairs=4)], "short", sweep("short", 1, 2))
    assert [(level.concurrency, level.pairs, level.prefill, level.deciding) for level in planned] == [
        (1, 3, False, False),
        (2, 4, True, True),
    ]


def test_no_sweep_leaves_the_workloads() -> None:
    assert [level.key for level in levels.plan([prompt("short", 5)], "short", sweep("short"))] == [("short", 1)]


@pytest.mark.parametrize(
    ("concurrency", "starts"), [(1, [0]), (2, [0, 2]), (3, [0, 1, 3]), (8, [0, 0, 1, 1, 2, 3, 3, 4])]
)
def test_streams_get_the_same_text_begun_at_different_places(concurrency: int, starts: list[int]) -> None:
    [level] = levels.plan([prompt("short", 5, concurrency)], "short", sweep("short"))
    turn = level.turn(counts=True)
    assert [p[0] for p in turn.prompts] == starts
    assert all(sorted(p) == [0, 1, 2, 3, 4] for p in turn.prompts)
    assert turn.output_tokens == 8
    assert turn.prefill
    assert not level.turn(counts=False).prefill
