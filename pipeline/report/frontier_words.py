"""The frontier over chosen axes in words: who is on it, who is beaten by whom and by what, who is not told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from pipeline.errors import UserError
from pipeline.metrics.axes import Axis, parse_axis, unknown_part
from pipeline.report import apart, frontier
from pipeline.report.analysis import Analysis
from pipeline.report.rows import Row


def lines(analysis: Analysis, names: Sequence[str] | None = None) -> Iterator[str]:
    """
    Args:
        names: axes as `parse_axis` reads them; None: those of `decision.frontier`.

    Raises:
        UserError: an axis is not known, or is named twice.
    """
    axes = analysis.axes if names is None else _parsed(analysis, names)
    tie = analysis.decision.tie
    found = frontier.place(analysis.rows, axes, tie)
    rows = {row.variant: row for row in analysis.rows}
    yield f"Frontier over {', '.join(map(_direction, axes))}"
    for variant in (name for name, rivals in found.items() if not rivals):
        yield f"  {variant}: on it; {', '.join(_figure(rows[variant], axis) for axis in axes)}"
    for variant, rivals in found.items():
        for rival in rivals:
            clear = ", ".join(_by(rows[variant], rows[rival], axes, tie))
            yield f"  {variant}: dominated by {rival}, beyond the uncertainty on {clear}"
    for row in analysis.rows:
        if row.variant not in found:
            yield f"  {row.variant}: not placed; {_why_not(row, axes)}"
    yield from _alike([rows[variant] for variant in found], axes, tie)


def _direction(axis: Axis) -> str:
    return f"{axis.title} ({'higher' if axis.higher_is_better else 'lower'} is better)"


def _figure(row: Row, axis: Axis) -> str:
    """The value on an axis, and what decides where that is another reading."""
    judged = axis.judged_by
    own = f"{axis.title} {apart.measured(row, axis)}"
    return own if judged == axis else f"{own}, by {judged.title} {apart.measured(row, judged)}"


def _by(row: Row, rival: Row, axes: Sequence[Axis], tie: float) -> list[str]:
    return [apart.compared(row, rival, axis) for axis in axes if apart.clearly_better(rival, row, axis, tie)]


def _why_not(row: Row, axes: Sequence[Axis]) -> str:
    if not row.ok:
        return f"{row.status.value}: {row.reason}"
    return "; ".join(
        f"no {axis.judged_by.title}: {apart.reading(row, axis).reason}"
        for axis in axes
        if apart.value(row, axis) is None
    )


def _alike(rows: Sequence[Row], axes: Sequence[Axis], tie: float) -> Iterator[str]:
    """Pairs that differ beyond the uncertainty on no axis."""
    for one, other in combinations(rows, 2):
        clear = any(
            apart.clearly_better(first, second, axis, tie)
            for axis in axes
            for first, second in ((one, other), (other, one))
        )
        if not clear:
            yield f"  {one.variant} and {other.variant}: not told apart on any of these axes"


def _parsed(analysis: Analysis, names: Sequence[str]) -> tuple[Axis, ...]:
    problems: list[str] = []
    axes: list[Axis] = []
    for name in names:
        try:
            axis = parse_axis(name)
        except UserError as error:
            problems += error.problems
            continue
        unknown = unknown_part(axis, _levels(analysis), _categories(analysis))
        problems += [f"{name.strip()!r}: {unknown}"] if unknown else []
        axes.append(axis)
    if len(set(map(frontier.plain(analysis.params), axes))) < len(axes):
        problems.append("an axis is named twice")
    if problems:
        raise UserError(f"--axes: {problem}" for problem in problems)
    return tuple(axes)


def _levels(analysis: Analysis) -> dict[str, set[int]]:
    benchmark = analysis.params.benchmark
    found = {name: {workload.concurrency} for name, workload in benchmark.workloads.items()}
    found[benchmark.sweep.workload] |= set(benchmark.sweep.concurrency)
    return found


def _categories(analysis: Analysis) -> dict[str, set[str]]:
    """Of each eval set, as it was scored."""
    found: dict[str, set[str]] = {name: set() for name in analysis.params.eval_sets}
    for evidence in analysis.gathered.variants:
        for scored in evidence.quality:
            found[scored.name] |= set(scored.record.categories)
    return found
