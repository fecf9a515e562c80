"""A comparison as tables: the same parts on a terminal and in a pull request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.diff.records import DecisionChange, Difference, MemoryChange, QualityChange, SideInfo, SpeedChange
from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.report import cells
from pipeline.report.breakdown.words import counted
from pipeline.report.markdown_text import escaped, grid, shortened
from pipeline.report.report_records import Figure

MOST_ROWS = 24
"""Of one table in Markdown; --json has all."""
_DELTA, _RATIO, _RATE, _BYTES = (
    BY_NAME[name] for name in ("quality_delta", "speedup", "decode_tokens_per_s", "weight_bytes")
)
_NONE = "none"
_NO_COMMON_VARIANT = "No variant is in both."


@dataclass(frozen=True)
class Part:
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    """Above the table: what it says in words, or why there is none."""


def markdown(found: Difference) -> str:
    """At most `MOST_ROWS` rows a table; what is left out is counted."""
    lines = [f"# {escaped(headline(found))}", ""]
    for part in parts(found):
        lines += [
            f"## {part.title}",
            *shortened([f"- {escaped(note)}" for note in part.notes], MOST_ROWS, "", "--json"),
        ]
        if part.rows:
            kept = [[escaped(cell) for cell in row] for row in part.rows[:MOST_ROWS]]
            left = len(part.rows) - len(kept)
            lines += ["", *grid(part.header, kept)]
            lines += ["", f"{counted(left, 'more row', 'more rows')}: `quantgate diff --json`."] if left else []
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def terminal(found: Difference) -> Group:
    blocks: list[RenderableType] = [Text(headline(found), style="bold")]
    for part in parts(found):
        blocks += [Text(f"\n{part.title}", style="bold"), *map(Text, part.notes)]
        if part.rows:
            blocks.append(_table(part))
    return Group(*blocks)


def _table(part: Part) -> Table:
    table = Table(header_style="bold")
    for name in part.header:
        table.add_column(name, overflow="fold")
    for row in part.rows:
        table.add_row(*map(Text, row))
    return table


def headline(found: Difference) -> str:
    """Whether another variant is recommended, in one line."""
    sides, decision = f"{_side(found.a)} → {_side(found.b)}", found.decision
    if decision.changed:
        return f"{sides}: the recommendation changed from {decision.a or _NONE} to {decision.b or _NONE}"
    verdicts = counted(len(found.verdicts), "verdict", "verdicts") if found.verdicts else "no verdict"
    return f"{sides}: the recommendation is still {decision.b or _NONE}; {verdicts} changed"


def _side(info: SideInfo) -> str:
    if info.commit is None:
        return "working tree" if info.given == "." else info.given
    return info.given if info.commit.startswith(info.given) else f"{info.given} ({info.commit[:7]})"


def parts(found: Difference) -> list[Part]:
    """Those that have something to say, in the order in which a release manager asks."""
    made = (_decision, _verdicts, _quality, _speed, _memory, _params, _notes)
    return [part for make in made if (part := make(found))]


def _decision(found: Difference) -> Part:
    decision = found.decision
    moved = [
        *([f"Added: {', '.join(found.variants_added)}."] if found.variants_added else []),
        *([f"Removed: {', '.join(found.variants_removed)}."] if found.variants_removed else []),
        *_profiles(decision),
    ]
    if decision.headline_a == decision.headline_b:
        return Part("Decision", (), (), (f"Both: {decision.headline_a}", *moved))
    return Part("Decision", (), (), (f"Before: {decision.headline_a}", f"After: {decision.headline_b}", *moved))


def _profiles(decision: DecisionChange) -> Iterator[str]:
    """Where the profile that ranks is another one, or one that both have would ship another variant."""
    if decision.profile_a != decision.profile_b:
        yield f"Profile: {decision.profile_a or _NONE} → {decision.profile_b or _NONE}."
    for name, now in decision.profiles_b.items():
        before = decision.profiles_a.get(name, now)
        if before != now:
            yield f"Under profile {name}: {before or _NONE} → {now or _NONE}."


def _verdicts(found: Difference) -> Part:
    if not found.verdicts:
        return Part("Gates", (), (), ("No verdict changed.",))
    told = {each.variant for each in found.verdicts if each.gate}
    rows = [
        (
            each.variant,
            each.gate or "all gates",
            each.a or "not asked",
            each.b or "not asked",
            # What a variant as a whole is said of is told by its gates, where they changed.
            "" if each.gate is None and each.variant in told else each.reason,
        )
        for each in found.verdicts
    ]
    return Part("Gates", ("Variant", "Gate", "Before", "After", "Why"), tuple(rows))


def _quality(found: Difference) -> Part:
    if not found.quality:
        return Part("Quality", (), (), ("Not compared: the two have no scored items of one variant in common.",))
    same_bytes = {each.variant: each.same for each in found.artifacts}
    several = len({each.eval_set for each in found.quality if each.eval_set}) > 1
    shown = [each for each in found.quality if each.eval_set is None or (several and _has_moved(each))]
    rows = tuple(_quality_row(each, same_bytes.get(each.variant)) for each in shown)
    note = (
        "After against before on the items that both were asked alike, paired by item id, with 95 % intervals; single "
        "sets only where something changed."
    )
    header = ("Variant", "Eval set", "Items", "New / gone / altered", "Score", "Lost / won", "In words")
    return Part("Quality", header, rows, (note,))


def _quality_row(each: QualityChange, same_artifact: bool | None) -> tuple[str, ...]:
    return (
        each.variant,
        each.eval_set or "all",
        f"{each.same:,}",
        f"{each.new:,} / {each.gone:,} / {each.altered:,}",
        _shown(_DELTA, each.delta),
        f"{len(each.lost):,} / {len(each.won):,}",
        _quality_words(each, same_artifact),
    )


def _has_moved(each: QualityChange) -> bool:
    return bool(each.lost or each.won or each.delta.value or each.new or each.gone or each.altered)


def _quality_words(each: QualityChange, same_artifact: bool | None) -> str:
    if each.delta.value is None:
        return each.delta.reason or ""
    if not (each.lost or each.won or each.delta.value):
        return "no difference"
    clear = _direction(each.delta, 0, "better", "worse") or "no change that chance could not explain"
    return f"{clear}, on the same artifact" if same_artifact else clear


def _direction(figure: Figure, neutral: float, above: str, below: str) -> str:
    """Which side of the neutral value the whole interval is on; empty where it is on neither."""
    if figure.low is not None and figure.low > neutral:
        return above
    return below if figure.high is not None and figure.high < neutral else ""


def _speed(found: Difference) -> Part:
    if found.speed_refused:
        return Part("Speed", (), (), ("Not compared, since these differ:", *found.speed_refused))
    same = dict.fromkeys(each.variant for each in found.speed if each.same_readings)
    rows = tuple(_speed_row(each) for each in found.speed if not each.same_readings)
    note = (
        "Speed-ups against the baseline, each measured in turns with it. Before and after were not measured in turns "
        "with each other: decode tokens/s drift from day to day and are shown only."
    )
    header = ("Variant", "Workload", "Before", "After", "After / before", "Tokens/s", "In words")
    notes = [*([note] if rows else []), *([f"Not measured anew: {', '.join(same)}."] if same else [])]
    return Part("Speed", header, rows, tuple(notes) or (_NO_COMMON_VARIANT,))


def _speed_row(each: SpeedChange) -> tuple[str, ...]:
    at = f"{each.workload} × {each.concurrency}" if (each.concurrency or 1) > 1 else each.workload
    words = _direction(each.change, 1, "faster than before", "slower than before")
    missing = each.change.reason if each.change.low is None else ""
    return (
        each.variant,
        at,
        _shown(_RATIO, each.a),
        _shown(_RATIO, each.b),
        _shown(_RATIO, each.change),
        f"{_shown(_RATE, each.decode_a)} → {_shown(_RATE, each.decode_b)}",
        words or missing or "no change shown",
    )


def _memory(found: Difference) -> Part:
    if not found.artifacts:
        return Part("Memory and artifacts", (), (), (_NO_COMMON_VARIANT,))
    same = {True: "same", False: "other", None: cells.DASH}
    rows = []
    for artifact in found.artifacts:
        figures = {each.metric: each for each in found.memory if each.variant == artifact.variant}
        rows.append((artifact.variant, same[artifact.same], *map(_bytes, figures.values())))
    titles = [BY_NAME[name].title for name in dict.fromkeys(each.metric for each in found.memory)]
    return Part("Memory and artifacts", ("Variant", "Artifact", *titles), tuple(rows))


def _bytes(each: MemoryChange) -> str:
    before, after = _shown(_BYTES, each.a), _shown(_BYTES, each.b)
    if each.a.value is None or each.b.value is None or each.a.value == each.b.value:
        return before if before == after else f"{before} → {after}"
    share = 100 * (each.b.value / each.a.value - 1) if each.a.value else 0
    return f"{before} → {after} ({share:+.1f} %)".replace("-", "−")


def _params(found: Difference) -> Part | None:
    if not found.params:
        return None
    rows = tuple((each.key, _value(each.a, each.in_a), _value(each.b, each.in_b)) for each in found.params)
    return Part("Params", ("Key", "Before", "After"), rows)


def _value(value: object, there: bool) -> str:
    if not there:
        return cells.DASH
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _notes(found: Difference) -> Part | None:
    return Part("Notes", (), (), tuple(found.notes)) if found.notes else None


def _shown(metric: Metric, figure: Figure) -> str:
    if figure.value is None:
        return cells.DASH
    value = metric.display(figure.value)
    if figure.low is None or figure.high is None:
        return value
    return f"{value} ({cells.interval(metric, figure.low, figure.high)})"
