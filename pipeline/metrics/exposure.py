"""What could have been counted, so that a count of 0 tells how much it rules out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.metrics import intervals
from pipeline.metrics.evidence import VariantEvidence
from pipeline.quality_records import ItemResult


@dataclass(frozen=True)
class Exposed:
    """Items that could have been counted."""

    count: int
    independent: int
    """Documents or conversations that they are of, where they name one, else items."""
    what: str
    """E.g. `critical items that fp16 passed`."""

    def none_seen(self) -> str:
        """What it says that none of them was counted: with 95 % confidence fewer than 3 / n of all such items would be.

        The rule of three (Hanley & Lippman-Hand 1983, JAMA 249:1743): were the true share p = 3 / n, n in a row without
        one would be seen in fewer than (1 - p)^n < exp(-3) = 5 % of cases.
        """
        if not self.count:
            return "so that says nothing"
        if self.independent <= 3:
            return "too few to rule anything out"
        return f"with 95 % confidence the share is below {100 * 3 / self.independent:.3g} %"

    def __str__(self) -> str:
        """E.g. `of 48 critical items that fp16 passed`."""
        return f"of {self.count or 'no'} {self.what}"


def critical_passed_before(evidence: VariantEvidence) -> Exposed | None:
    return _passed_before(evidence, "critical items", lambda item: item.critical)


def passed_before(evidence: VariantEvidence) -> Exposed | None:
    return _passed_before(evidence, "items", lambda item: True)


def answers(evidence: VariantEvidence) -> Exposed | None:
    return _exposed([(scored.name, item) for scored in evidence.quality for item in scored.items], "answers")


def _passed_before(evidence: VariantEvidence, what: str, counts: Callable[[ItemResult], bool]) -> Exposed | None:
    """Items that the baseline passed, which alone can be lost; None for the baseline."""
    if evidence.baseline is None:
        return None
    asked = ((scored.name, item) for scored in evidence.baseline.quality for item in scored.items)
    passed = [(name, item) for name, item in asked if item.passed and counts(item)]
    return _exposed(passed, f"{what} that {evidence.baseline.variant} passed")


def _exposed(found: Sequence[tuple[str, ItemResult]], what: str) -> Exposed:
    """Of items with the name of their eval set: ids and names of documents are unique in one set only."""
    observed = intervals.scores([item for _, item in found])
    units = {(name, each.unit) for (name, _), each in zip(found, observed, strict=True)}
    return Exposed(len(found), len(units), what)
