"""Turns of two sides with workers that are no processes; the real ones are in runs/test_benchmark.py."""

from __future__ import annotations

from random import Random

import pytest
from unit.workers import DIED, HUNG, OOM, RAISED, Stage, planned

from pipeline.alternation import Findings, ProcessPair, Setting
from pipeline.levels import Level
from pipeline.readings import (
    Alternation,
    FailureKind,
    Side,
)
from pipeline.residents import (
    Load,
    Message,
    Turn,
    TurnError,
)


def level(
    workload: str = "short", concurrency: int = 1, pairs: int = 3, tokens: int = 4, *, deciding: bool = True
) -> Level:
    return Level(
        workload=workload,
        concurrency=concurrency,
        prompt=tuple(range(tokens)),
        prompt_sha256="0" * 64,
        output_tokens=2,
        pairs=pairs,
        prefill=True,
        deciding=deciding,
    )


def load(variant: str) -> Load:
    return Load(
        variant=variant,
        engine="fake",
        device="cpu",
        compute_dtype={"cpu": "float32"},
        threads=1,
        cores=None,
        settings={},
        seed=0,
        ours=[],
    )


def measure(
    stage: Stage,
    levels: list[Level],
    findings: Findings | None = None,
    alternation: Alternation = Alternation.RESIDENT,
    *,
    probe: bool = False,
    number: int = 0,
    seed: int = 0,
    workload_timeout_s: float = 100,
    sides: tuple[str, ...] = ("ours", "base"),
) -> tuple[bool, Findings]:
    found = findings or Findings()
    setting = Setting(
        loads=dict(zip((Side.VARIANT, Side.BASELINE), map(load, sides), strict=False)),
        start=stage.start,
        load_timeout_s=9,
        request_timeout_s=3,
        workload_timeout_s=workload_timeout_s,
        random=Random(seed),
        step=lambda what: None,
    )
    return ProcessPair(number, setting, found).measure(levels, alternation, probe=probe), found


def test_every_pair_holds_one_turn_of_each_side_back_to_back() -> None:
    stage = Stage()
    lived, found = measure(stage, [level(pairs=6)])
    assert lived
    turns = [variant for variant, _ in stage.turns()]
    assert len(turns) == 2 * (1 + 6), "one that does not count, and six that do, of each side"
    for place in range(0, len(turns), 2):
        assert {turns[place], turns[place + 1]} == {"ours", "base"}
    pairs = found.pairs["short", 1]
    assert [pair.variant.token_s[0] for pair in pairs] == [2, 3, 4, 5, 6, 7], "the first answer is the warm-up's"
    assert all(pair.baseline for pair in pairs)
    assert [pair.variant_first for pair in pairs] == [turns[place] == "ours" for place in range(2, len(turns), 2)]


def test_the_order_within_pairs_is_random_and_follows_the_seed() -> None:
    orders = [
        [p.variant_first for p in measure(Stage(), [level(pairs=40)], seed=s)[1].pairs["short", 1]] for s in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert 10 < sum(orders[0]) < 30


def test_turns_go_round_the_levels_after_each_was_tried_from_small_to_large() -> None:
    stage = Stage()
    measure(stage, [level("a", 1, 2), level("b", 2, 1), level("c", 4, 2)])
    sizes = [size for variant, size in stage.turns() if variant == "ours"]
    assert sizes == ["1×4", "2×4", "4×4", "1×4", "2×4", "4×4", "1×4", "4×4"]


def test_who_loads_first_is_random_too() -> None:
    def first(seed: int) -> tuple[str, str]:
        stage = Stage()
        measure(stage, [level()], seed=seed)
        return stage.heard[0]

    assert {first(seed) for seed in range(9)} == {("ours", "load"), ("base", "load")}


def test_both_are_loaded_side_by_side_and_closed_at_the_end() -> None:
    stage = Stage()
    measure(stage, [level()])
    assert (stage.most_alive, stage.alive, stage.started) == (2, 0, 2)


def test_in_blocks_one_is_loaded_at_a_time_and_turns_are_paired_all_the_same() -> None:
    stage = Stage()
    _, found = measure(stage, [level(pairs=3)], alternation=Alternation.BLOCKS)
    assert (stage.most_alive, stage.started) == (1, 2)
    pairs = found.pairs["short", 1]
    assert len(pairs) == 3
    assert all(pair.baseline for pair in pairs)
    first = stage.turns()[0][0]
    assert {pair.variant_first for pair in pairs} == {first == "ours"}
    firsts = {
        measure(Stage(), [level()], alternation=Alternation.BLOCKS, seed=s)[1].pairs["short", 1][0].variant_first
        for s in range(9)
    }
    assert firsts == {True, False}, "which block comes first is random too"


def test_alone_there_is_no_baseline_in_the_pairs() -> None:
    stage = Stage()
    _, found = measure(stage, [level()], alternation=Alternation.ALONE, sides=("ours",))
    assert [pair.baseline for pair in found.pairs["short", 1]] == [None] * 3
    assert {variant for variant, _ in stage.heard} == {"ours"}


def test_the_first_try_of_each_level_tells_its_memory() -> None:
    _, found = measure(Stage(), [level("a", 1), level("b", 2)])
    ours = next(p for p in found.processes if p.side is Side.VARIANT)
    assert [(p.workload, p.concurrency, p.tokens, p.peak_bytes.value) for p in ours.peaks] == [
        ("a", 1, 6, 1),
        ("b", 2, 12, 2),
    ]


def test_cache_and_device_are_probed_when_asked_for() -> None:
    stage = Stage()
    _, found = measure(stage, [level()], probe=True)
    assert found.cache is not None
    assert found.limits is not None
    assert [variant for variant, kind in stage.heard if kind in ("cache", "limits")] == ["ours", "ours"]
    assert measure(Stage(), [level()])[1].limits is None


@pytest.mark.parametrize("kind", ["limits", "cache"])
def test_a_failed_probe_costs_nothing_else(kind: str) -> None:
    lived, found = measure(Stage(planned("ours", kind, RAISED)), [level()], probe=True)
    assert lived
    assert (found.limits is None, found.cache is None) == (kind == "limits", kind == "cache")
    assert [(f.step, f.kind) for f in found.failures] == [("probe", FailureKind.ERROR)]
    assert len(found.processes) == 2


def test_a_size_that_does_not_fit_is_not_tried_again_and_the_others_go_on() -> None:
    stage = Stage(planned("ours", "turn", OOM, streams=8))
    lived, found = measure(stage, [level("a", 1), level("b", 8)])
    assert lived
    assert [(f.workload, f.concurrency, f.kind) for f in found.failures] == [("b", 8, FailureKind.OUT_OF_MEMORY)]
    assert len(found.pairs["a", 1]) == 3
    assert ("b", 8) not in found.pairs
    measure(stage, [level("a", 1), level("b", 8)], found, number=1)
    assert len(found.failures) == 1, "nor by the next processes"
    assert len(found.pairs["a", 1]) == 6


def test_the_baseline_is_not_asked_for_what_the_variant_cannot_do() -> None:
    stage = Stage(planned("ours", "turn", OOM, streams=8))
    measure(stage, [level("a", 1), level("b", 8, pairs=5)])
    assert stage.turns().count(("base", "8×4")) <= 1, "at most its turn before the variant's failure"


def test_where_only_the_baseline_does_not_fit_the_variant_s_readings_are_kept() -> None:
    _, found = measure(Stage(planned("base", "turn", OOM, streams=8)), [level("a", 1), level("b", 8)])
    assert [pair.baseline for pair in found.pairs["b", 8]] == [None] * 3
    assert all(pair.baseline for pair in found.pairs["a", 1])


@pytest.mark.parametrize("error", [DIED, HUNG])
def test_a_worker_that_is_gone_ends_its_pair_of_processes_and_keeps_what_was_taken(error: TurnError) -> None:
    calls = [0]

    def fails(who: str, message: Message) -> TurnError | None:
        ours = who == "ours" and isinstance(message, Turn)
        calls[0] += ours
        return error if ours and calls[0] == 4 else None

    stage = Stage(fails)
    lived, found = measure(stage, [level(pairs=5)])
    assert not lived
    assert stage.alive == 0
    assert 2 <= len(found.pairs["short", 1]) < 5
    assert [(f.side, f.step, f.kind) for f in found.failures] == [(Side.VARIANT, "request", error.kind)]
    lived, _ = measure(Stage(), [level(pairs=5)], found, number=1)
    assert lived, "once is no reason to give the level up"


def test_the_deciding_level_is_tried_again_after_it_killed_its_worker_once() -> None:
    stage, found = Stage(planned("ours", "turn", DIED)), Findings()
    ends = [measure(stage, [level()], found, number=n)[0] for n in range(3)]
    assert ends == [False, False, True]
    assert len(found.failures) == 2
    assert ("short", 1) not in found.pairs


def test_any_other_level_is_given_up_at_once_so_that_the_rest_goes_on() -> None:
    stage, found = Stage(planned("ours", "turn", HUNG, streams=8)), Findings()
    levels = [level("a", 1), level("b", 8, deciding=False)]
    ends = [measure(stage, levels, found, number=n)[0] for n in range(2)]
    assert ends == [False, True]
    assert len(found.failures) == 1
    assert len(found.pairs["a", 1]) == 3


def test_larger_levels_of_a_workload_that_did_not_fit_are_not_tried() -> None:
    stage = Stage(planned("ours", "turn", OOM, streams=4))
    levels = [
        level("a", 1),
        level("a", 4, deciding=False),
        level("a", 8, deciding=False),
        level("b", 8, deciding=False),
    ]
    lived, found = measure(stage, levels)
    assert lived
    assert len(found.failures) == 1
    assert set(found.pairs) == {("a", 1), ("b", 8)}


def test_two_lethal_sizes_keep_larger_ones_of_their_workload_from_being_tried() -> None:
    def fails(who: str, message: Message) -> TurnError | None:
        lethal = who == "ours" and isinstance(message, Turn) and len(message.prompts) > 1
        return DIED if lethal else None

    stage, found = Stage(fails), Findings()
    levels = [level("a", 1), *(level("a", size, deciding=False) for size in (2, 4, 8, 16))]
    ends = [measure(stage, levels, found, number=n)[0] for n in range(3)]
    assert ends == [False, False, True]
    assert [f.concurrency for f in found.failures] == [2, 4]


def test_failures_of_an_earlier_way_of_measuring_do_not_count() -> None:
    stage, found = Stage(planned("ours", "turn", OOM, streams=8, times=1)), Findings()
    levels = [level("b", 8, deciding=False)]
    measure(stage, levels, found)
    assert found.given_up(Side.VARIANT, levels[0])
    found.first_try = 1
    lived, _ = measure(stage, levels, found, Alternation.BLOCKS, number=1)
    assert lived
    assert len(found.pairs["b", 8]) == 3
    assert {p.alternation for p in found.processes if p.process == 1} == {Alternation.BLOCKS}


def test_what_the_one_that_is_left_has_seen_is_kept() -> None:
    _, found = measure(Stage(planned("base", "turn", DIED)), [level()])
    assert [p.side for p in found.processes] == [Side.VARIANT]


def test_in_blocks_the_time_of_a_workload_is_each_side_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr("pipeline.alternation.time.monotonic", lambda: next(clock))
    _, found = measure(Stage(), [level(pairs=2)], alternation=Alternation.BLOCKS, workload_timeout_s=25)
    assert found.failures == [], "three turns of 10 s each: the third begins after 20 s"
    assert len(found.pairs["short", 1]) == 2


def test_turns_over_the_time_of_their_workload_are_counted_as_skipped() -> None:
    lived, found = measure(Stage(), [level(pairs=2)], workload_timeout_s=0)
    assert lived
    kinds = [f.kind for f in found.failures]
    assert set(kinds) == {FailureKind.SKIPPED}
    assert "short" in {f.workload for f in found.failures}
    assert ("short", 1) not in found.pairs or len(found.pairs["short", 1]) < 2


@pytest.mark.parametrize("variant", ["ours", "base"])
def test_a_model_that_does_not_load_ends_the_pair_with_its_reason(variant: str) -> None:
    stage = Stage(planned(variant, "load", OOM))
    lived, found = measure(stage, [level()])
    assert not lived
    side = Side.VARIANT if variant == "ours" else Side.BASELINE
    assert [(f.side, f.step) for f in found.failures] == [(side, "load")]
    assert len(found.load_failures(side, 0)) == 1
    assert found.load_failures(side, 1) == []
    assert stage.turns() == []
    assert stage.alive == 0


def test_nothing_is_asked_of_a_model_on_the_wrong_device() -> None:
    stage = Stage(misplaced=["lm_head.weight"])
    lived, found = measure(stage, [level()])
    assert not lived
    assert stage.turns() == []
    assert found.loaded[Side.VARIANT].misplaced == ["lm_head.weight"]
    assert found.failures == []
