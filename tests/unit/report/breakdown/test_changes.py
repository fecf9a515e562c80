from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from synthetic import EVAL_SET, Build

from pipeline.metrics.evidence import VariantEvidence
from pipeline.quality_records import FinishReason, Flaw, Invariance
from pipeline.records import Status
from pipeline.report.breakdown import changes


@pytest.fixture
def compared(build: Build):
    """Baseline and variant with these scores on two categories of one set."""

    def make(before: Sequence[float], after: Sequence[float], **record: Any) -> list[VariantEvidence]:
        def scored(name: str, scores: Sequence[float]) -> VariantEvidence:
            items = [
                build.item(f"item-{place:03}", score, category="mood" if place % 2 else "topic")
                for place, score in enumerate(scores)
            ]
            return replace(build.evidence(name), quality=(build.scored(name, items, **record),))

        fp16 = scored("fp16", before)
        return [fp16, replace(scored("int8", after), baseline=fp16)]

    return make


def test_a_variant_that_lost_much_is_clearly_worse(compared):
    """40 items; of the 20 topics 12 are lost: mid-p 0.5^12, by Holm doubled; of the 20 moods none is."""
    [found] = changes.of(compared([1] * 40, [0 if n % 2 == 0 and n < 24 else 1 for n in range(40)]))
    assert found.variant == "int8"
    whole, *parts = found.lines
    assert (whole.category, whole.items, whole.lost, whole.won) == (None, 40, 12, 0)
    assert whole.delta.text == "−30.0 pp"
    assert whole.delta.interval
    assert [(line.category, line.items, line.lost, line.clear) for line in parts] == [
        ("topic", 20, 12, True),
        ("mood", 20, 0, False),
    ]
    assert parts[0].p.text == "< 0.001"
    assert parts[0].p.reason.startswith("McNemar, mid-p; < 0.001 before")
    assert parts[1].p.text == "1.00"
    assert found.words.startswith(
        f"clearly worse on {EVAL_SET} as a whole, topic ({EVAL_SET}); of 48 answers given twice"
    )


def test_a_gain_is_told_as_one(compared):
    [found] = changes.of(compared([0] * 40, [1] * 12 + [0] * 28))
    assert found.words.startswith(f"clearly better on {EVAL_SET} as a whole")


def test_no_change_says_what_could_hide(compared):
    """Of 200 items 4 flip: Connor's drop is 3.9 points where 2 % change (the drop itself is then the larger share)."""
    [found] = changes.of(compared([1] * 200, [0] * 2 + [1] * 198))
    whole = found.lines[0]
    assert (whole.lost, whole.clear, whole.detectable.text) == (2, False, "3.9 pp")
    assert found.words.startswith(
        "no change that chance could not explain, but a drop of less than 3.9 points could hide in so few items"
    )


@pytest.mark.parametrize(
    ("invariance", "words"),
    [
        (Invariance(items=24, differing=0, flips=[]), "of 48 answers given twice, in a batch and alone, none differed"),
        (
            Invariance(items=24, differing=2, flips=[]),
            "of 48 answers given twice, in a batch and alone, 4 differed and no verdict with them",
        ),
        (
            Invariance(items=24, differing=2, flips=["item-001"]),
            # 1.96 × √(2 × 1/24 / 40)
            "of 48 answers given twice, in a batch and alone, 4 differed and 2 verdicts with them; the batch alone may "
            "move the score by 8.9 points, as much as was lost or won",
        ),
    ],
)
def test_what_the_batch_alone_changes_is_told(compared, invariance, words):
    [found] = changes.of(compared([1] * 40, [0] + [1] * 39, invariance=invariance))
    assert found.words.endswith(f"; {words}")


def test_a_loss_beyond_the_noise_is_not_put_down_to_the_batch(compared):
    noisy = Invariance(items=24, differing=2, flips=["item-001"])
    [found] = changes.of(compared([1] * 40, [0] * 20 + [1] * 20, invariance=noisy))
    assert found.words.endswith("2 verdicts with them")


def test_one_that_was_not_scored_says_why(compared):
    fp16, int8 = compared([1] * 4, [1] * 4)
    record = int8.quality[0].record.model_copy(update={"status": Status.FAILED, "reason": "killed"})
    lost = replace(int8, quality=(replace(int8.quality[0], record=record),))
    [found] = changes.of([fp16, lost])
    assert found.lines == ()
    assert found.words == f"was not compared: int8 was not scored on {EVAL_SET}: killed"
    assert changes.answers([fp16, lost])[1].reason == "killed"


def test_what_the_answers_looked_like(compared):
    found = changes.answers(
        compared(
            [1] * 4,
            [1] * 4,
            finish_reasons={FinishReason.STOP: 1, FinishReason.LENGTH: 3},
            flaws={Flaw.EMPTY: 2, Flaw.DEGENERATE: 1},
            over_context=[f"long-{n}" for n in range(7)],
        )
    )
    assert [line.variant for line in found] == ["fp16", "int8"]
    line = found[1]
    assert (line.items, line.cut, line.reason) == (4, 3, "")
    assert dict(zip(Flaw, line.flaws, strict=True)) == {Flaw.EMPTY: 2, Flaw.REFUSAL: 0, Flaw.DEGENERATE: 1}
    assert line.over_context.text == "7"
    assert line.over_context.reason == "long-0, long-1, long-2, long-3, long-4, …"
