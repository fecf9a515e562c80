"""The words of a decision: what to ship and what it trades, and one reason for each other variant."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.metrics.axes import Axis
from pipeline.metrics.catalogue import BY_NAME
from pipeline.records import GateVerdict, Verdict
from pipeline.report import apart, cells, score
from pipeline.report.ranking import BYTES, QUALITY, Ranking, Step
from pipeline.report.rows import Row

SPEEDUP = Axis(BY_NAME["speedup"])


@dataclass(frozen=True)
class Reasons:
    profile: str
    rows: tuple[Row, ...]
    overall: Mapping[str, Verdict]
    ranking: Ranking
    lacking: tuple[str, ...]
    """Where nothing is picked: what the variants nearest to passing lack."""
    axes: tuple[Axis, ...]
    """Of the frontier."""

    @property
    def baseline(self) -> Row:
        return self.ranking.baseline

    def headline(self) -> str:
        pick = self.ranking.pick
        if pick is None:
            return self._nothing()
        if not pick.is_baseline:
            tied = ", ".join(self.ranking.tied)
            alike = f" Tied with it under {self.profile}: {tied}." if tied else ""
            return f"Ship {pick.variant}: {self.trade(pick)}.{alike}"
        return f"Ship {pick.variant}, the baseline. {self._grouped(pick)}".rstrip()

    def _nothing(self) -> str:
        undecided = [variant for variant, verdict in self.overall.items() if verdict is Verdict.UNDECIDED]
        yet, named = (" yet", f" Undecided: {', '.join(undecided)}.") if undecided else ("", "")
        gives = "".join(f" {sentence}." for sentence in self.lacking[:1])
        return f"No variant can be shipped{yet}: none passes every gate.{named}{gives}"

    def _grouped(self, pick: Row) -> str:
        """The variants that are not shipped, by what became of them."""
        others = [row.variant for row in self.rows if row is not pick]
        passed = [name for name in others if self.overall[name] is Verdict.PASS]
        tied = self.ranking.tied
        groups = {
            f"tied with it under {self.profile}": tied,
            "ranked lower": [name for name in passed if name not in tied],
            "undecided": [name for name in others if self.overall[name] is Verdict.UNDECIDED],
            "failing": [name for name in others if self.overall[name] is Verdict.FAIL],
        }
        text = "; ".join(f"{word}: {', '.join(names)}" for word, names in groups.items() if names)
        return f"{text[:1].upper()}{text[1:]}." if text else ""

    def trade(self, row: Row) -> str:
        """What a variant gives and takes against the baseline, in one line: what the profile values, and the rest."""
        return ", ".join(self._trade(row)) or f"nothing can be compared to {self.baseline.variant}"

    def _trade(self, row: Row) -> Iterator[str]:
        base = self.baseline
        if apart.value(row, SPEEDUP) is not None:
            yield f"{apart.shown(row, SPEEDUP)} the decode speed of {base.variant}"
        valued = dict.fromkeys(weight.axis.judged_by for weight in self.ranking.weights)
        for axis in valued:
            if axis in (SPEEDUP, BYTES, QUALITY) or apart.value(row, axis) is None:
                continue
            against = "" if axis.metric.versus_baseline else f" against {apart.shown(base, axis)}"
            yield f"{axis.title} {apart.shown(row, axis)}{against}"
        own, theirs = apart.value(row, BYTES), apart.value(base, BYTES)
        if own is not None and theirs:
            yield f"{100 * own / theirs:.0f} % of its weight bytes"
        if row.value("quality_delta") is not None:
            yield f"quality {cells.of_row(row, BY_NAME['quality_delta'])}"

    # --- each variant ----------------------------------------------------------------------------------------

    def why(self, row: Row, verdicts: Sequence[GateVerdict]) -> str:
        if not row.ok:
            return f"{row.status.value}: {row.reason}"
        reason = self._place(row, verdicts)
        return f"{reason}; {self._kernel(row)}" if row.kernel_note else reason

    def _kernel(self, row: Row) -> str:
        """That the kernel is not native, and that the variant is slower, where it is."""
        speedup = row.value("speedup")
        if row.is_baseline or speedup is None or speedup >= 1:
            return row.kernel_note
        return f"{SPEEDUP.show(speedup)} the decode speed of {self.baseline.variant}, {row.kernel_note}"

    def _place(self, row: Row, verdicts: Sequence[GateVerdict]) -> str:
        """Where a variant that works stands among the others."""
        failed = [v for v in verdicts if v.verdict is Verdict.FAIL]
        undecided = [v for v in verdicts if v.verdict is Verdict.UNDECIDED]
        if failed:
            return "; ".join(f"gate {v.gate} FAIL: {v.reason}" for v in failed)
        if undecided:
            open_gates = "; ".join(f"gate {v.gate} is UNDECIDED: {v.reason}" for v in undecided)
            return f"not shipped while undecided: {open_gates}"
        pick = self.ranking.pick
        assert pick is not None, "a variant that passes every gate is a candidate, so there is a pick"
        if row is pick:
            return self._why_picked(pick)
        if pick.variant in row.dominated_by:
            return f"dominated by {pick.variant}: {', '.join(self._beaten(pick, row))}"
        return self._lost(row, pick)

    def _beaten(self, winner: Row, loser: Row) -> list[str]:
        """The axes of the frontier on which the winner is better beyond the uncertainty, with both numbers."""
        clear = [axis for axis in self.axes if apart.clearly_better(winner, loser, axis, self.ranking.tie)]
        return [apart.compared(loser, winner, axis) for axis in clear]

    def _why_picked(self, pick: Row) -> str:
        rivals = [row for row in self.ranking.candidates if row is not pick]
        if not rivals:
            return "the only variant that passes every gate"
        if not self.ranking.tied:
            return f"of those that pass every gate it has the best score under {self.profile}, {self._score(pick)}"
        because = {
            Step.QUALITY: "better quality",
            Step.BYTES: "fewer bytes",
            Step.BASELINE: "being the baseline",
            Step.NAME: "the first name",
        }
        steps = {self.ranking.lost_at(row) for row in rivals}
        decided = ", then ".join(word for step, word in because.items() if step in steps)
        names = ", ".join(self.ranking.tied)
        return f"passes every gate and is tied with {names}: {self._alike(pick, pick)}; it goes first by {decided}"

    def _alike(self, row: Row, pick: Row) -> str:
        """Why a variant is tied with the pick: neither is told apart from the best score."""
        found, best = self.ranking.scores[row.variant], self.ranking.best
        if found.value.value is None:
            return f"no variant has a score under {self.profile} ({found.value.reason})"
        own = f"score {self._score(row)} under {self.profile}"
        if row is not best:
            return f"{own} is not told apart from {self._score(best)} of {best.variant}, the best one"
        if row is not pick:
            return f"{own}, the best one, is not told apart from {self._score(pick)} of {pick.variant}"
        return f"{own} is the best one, but not told apart from theirs"

    def _lost(self, row: Row, pick: Row) -> str:
        step = self.ranking.lost_at(row)
        if step is Step.SCORE:
            return self._lower_score(row, pick)
        return f"tied with {pick.variant}: {self._alike(row, pick)}; {self._broken(row, pick, step)}"

    def _lower_score(self, row: Row, pick: Row) -> str:
        found, best = self.ranking.scores[row.variant], self.ranking.best
        if found.value.value is None:
            return f"passes every gate but is not ranked under {self.profile}: {found.value.reason}"
        beside = "" if best is pick else f", from which {pick.variant} is not told apart"
        return (
            f"lower score under {self.profile}, {self._score(row)} against {self._score(best)} of "
            f"{best.variant}{beside}; most of it by {self._largest_part(row, best)}"
        )

    def _largest_part(self, row: Row, best: Row) -> str:
        """The axis that takes most from a variant's score against the best one's, with both numbers."""
        parts = self.ranking.weights

        def lag(place: int) -> float:
            ours, theirs = (score.improvement(each, self.baseline, parts[place].axis).value for each in (row, best))
            assert ours.value, "it has a score"
            assert theirs.value, "it has a score"
            return parts[place].share * math.log(theirs.value / ours.value)

        return apart.compared(row, best, parts[max(range(len(parts)), key=lag)].axis)

    def _broken(self, row: Row, pick: Row, step: Step) -> str:
        """What broke a tie of scores."""
        if step is Step.QUALITY:
            best = self.ranking.best_quality(self.ranking.left_after(Step.SCORE))
            return f"quality clearly below that of {best.variant}: {apart.gained(row, best, QUALITY)} on the same items"
        if step is Step.BYTES:
            return f"no clear difference in quality; {apart.compared(row, pick, BYTES)}"
        last = f"{pick.variant} is the baseline" if step is Step.BASELINE else f"the name {pick.variant} comes first"
        return f"no clear difference in quality, as many bytes; {last}"

    def _score(self, row: Row) -> str:
        """E.g. `1.12 (1.10 to 1.15)`; one without an interval says so, since it can be told apart from none."""
        if row.is_baseline:
            return "1"
        found = self.ranking.scores[row.variant]
        return f"{cells.score(found.value, found.low, found.high)}{'' if found.low.value else ' without an interval'}"
