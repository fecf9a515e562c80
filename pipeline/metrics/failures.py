"""How often a request to a variant gave no answer."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.metrics import binomial, latency
from pipeline.metrics.evidence import VariantEvidence
from pipeline.readings import Failure, Side, SpeedRecord, WorkloadReadings


@dataclass(frozen=True)
class Requests:
    """Turns of all workloads and levels, each of which counts once however many streams it has, and eval items."""

    failed: int
    asked: int

    @property
    def share(self) -> float:
        return self.failed / self.asked

    @property
    def low(self) -> float:
        """Of the share's 95 % interval; see `binomial.share_interval`."""
        return binomial.share_interval(self.failed, self.asked)[0]

    @property
    def high(self) -> float:
        return binomial.share_interval(self.failed, self.asked)[1]


def requests(evidence: VariantEvidence) -> Requests:
    """Every request to the variant that was answered, failed, or was given up.

    Failed are turns that ran out of memory or time, died or were skipped; turns of a level that was given up after
    that, as many as the baseline's own record has more of; and eval items over the model's context, which are not
    asked. Loading and probing are no requests.
    """
    of_levels = [_of_level(evidence, readings) for readings in evidence.speed.workloads]
    over_context = sum(len(scored.record.over_context) for scored in evidence.quality)
    return Requests(
        failed=sum(level.failed for level in of_levels) + over_context,
        asked=sum(level.asked for level in of_levels) + over_context + evidence.items,
    )


def _of_level(evidence: VariantEvidence, readings: WorkloadReadings) -> Requests:
    answered, failed = len(latency.variant_requests(readings)), _failures(evidence.speed, readings)
    asked = max(answered + failed, _planned(evidence, readings) if failed else 0)
    return Requests(asked - answered, asked)


def _failures(speed: SpeedRecord, level: WorkloadReadings) -> int:
    return sum(_level(failure) == _level(level) and failure.side is Side.VARIANT for failure in speed.failures)


def _planned(evidence: VariantEvidence, level: WorkloadReadings) -> int:
    """Turns that the baseline took of it; 0 of the deciding workload, of which each variant has a number of its own."""
    if evidence.baseline is None or evidence.readings(evidence.headline) is level:
        return 0
    return sum(len(other.pairs) for other in evidence.baseline.speed.workloads if _level(other) == _level(level))


def _level(found: Failure | WorkloadReadings) -> tuple[str | None, int | None]:
    return found.workload, found.concurrency
