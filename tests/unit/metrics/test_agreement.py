from __future__ import annotations

import pytest

from pipeline.metrics.agreement import kappa, share

YES, NO = True, False


def verdicts(both_yes: int, yes_no: int, no_yes: int, both_no: int) -> tuple[list[bool], list[bool]]:
    ours = [YES] * (both_yes + yes_no) + [NO] * (no_yes + both_no)
    theirs = [YES] * both_yes + [NO] * yes_no + [YES] * no_yes + [NO] * both_no
    return ours, theirs


def test_share_and_kappa_worked_by_hand() -> None:
    # 20 + 15 of 50 agree: p = 0.7. Shares of yes 25/50 and 30/50: e = 0.5·0.6 + 0.5·0.4 = 0.5. (0.7-0.5)/0.5 = 0.4.
    found = verdicts(20, 5, 10, 15)
    assert share(*found).value == pytest.approx(0.7)
    assert kappa(*found).value == pytest.approx(0.4)


def test_high_agreement_on_lopsided_labels_is_little_kappa() -> None:
    # p = 0.9, e = 0.95·0.95 + 0.05·0.05 = 0.905.
    found = verdicts(18, 1, 1, 0)
    assert share(*found).value == pytest.approx(0.9)
    assert kappa(*found).value == pytest.approx((0.9 - 0.905) / 0.095)


def test_full_agreement_and_full_disagreement() -> None:
    assert kappa(*verdicts(3, 0, 0, 3)).value == pytest.approx(1)
    assert kappa(*verdicts(0, 3, 3, 0)).value == pytest.approx(-1)


@pytest.mark.parametrize("counts", [(4, 0, 0, 0), (0, 0, 0, 4)])
def test_kappa_is_missing_where_all_verdicts_are_one(counts: tuple[int, int, int, int]) -> None:
    found = verdicts(*counts)
    assert share(*found).value == 1
    assert kappa(*found).value is None
    assert "one and the same verdict" in str(kappa(*found).reason)


def test_no_labels_are_missing_not_zero() -> None:
    assert share([], []).reason == "no labelled answers"
    assert kappa([], []).reason == "no labelled answers"


def test_verdicts_on_different_answers_are_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        share([YES], [YES, NO])
