"""The report for a pull request: the decision first, at most `LIMIT` lines."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.records import Verdict
from pipeline.report import breakdown, cells, conditions, gates
from pipeline.report.analysis import Analysis

LIMIT = 80
_MARKS = {Verdict.PASS: "✅ PASS", Verdict.FAIL: "❌ FAIL", Verdict.UNDECIDED: "❔ UNDECIDED"}


def render(analysis: Analysis) -> str:
    """Sections that would not fit, however many variants and categories there are, are named and left to the HTML."""
    kept = [_decision(analysis), _table(analysis)]
    optional = [
        ("Failures", _failures(analysis)),
        ("Conditions", _conditions(analysis)),
        ("Speed by workload", _speed(analysis)),
        ("Quality by category", _categories(analysis)),
    ]
    left_out = []
    for title, lines in optional:
        room = LIMIT - sum(map(len, kept)) - 2
        if len(lines) <= room:
            kept.append(lines)
        else:
            left_out.append(title)
    text = [line for section in kept for line in section]
    if left_out:
        text += [f"*Too long for here, see report.html: {', '.join(left_out)}.*"]
    return "\n".join(text).rstrip("\n") + "\n"


def _decision(analysis: Analysis) -> list[str]:
    asked = analysis.params.gates
    header = ["Variant", "Verdict", *asked, "Why"]
    body = [
        [
            f"**{row.variant}**" if row.variant == analysis.decision.pick else row.variant,
            _MARKS[decided.verdict],
            *(_MARKS[verdict.verdict] for verdict in decided.gates),
            decided.why,
        ]
        for row, decided in analysis.decided()
    ]
    required = "; ".join(f"{name}: {gates.describe(gate, analysis.baseline)}" for name, gate in asked.items())
    return [
        f"# {_escaped(analysis.decision.headline)}",
        "",
        *_grid(header, body),
        "",
        f"Gates: {_escaped(required) or 'none'}. Ranked by {analysis.ranked_by} "
        f"(a tie within {100 * analysis.decision.tie:g} %).",
        "",
    ]


def _table(analysis: Analysis) -> list[str]:
    header = ["Variant", *(metric.title for metric in cells.COLUMNS), "Frontier"]
    body = [
        [row.variant, *(str(cells.of_row(row, metric)) for metric in cells.COLUMNS), _place(row.on_frontier, row.ok)]
        for row in analysis.rows
    ]
    return [
        "## Trade-off",
        "",
        *_grid(header, body),
        "",
        f"Speed is that of workload `{analysis.decision.workload}`; intervals are 95 %; pp are percentage points.",
        "",
    ]


def _place(on_frontier: bool, ok: bool) -> str:
    return "on it" if on_frontier else "dominated" if ok else cells.DASH


def _failures(analysis: Analysis) -> list[str]:
    lines = [
        f"- **{row.variant}** {row.status.value}: {_escaped(row.reason or '')}" for row in analysis.rows if not row.ok
    ]
    return ["## Failures", "", *lines, ""] if lines else []


def _conditions(analysis: Analysis) -> list[str]:
    sections = conditions.describe(analysis.params, analysis.gathered)
    lines = [
        f"- **{section.title}**: " + "; ".join(f"{label}: {_escaped(value)}" for label, value in section.lines)
        for section in sections
    ]
    notes = [f"- ⚠ {_escaped(note)}" for note in conditions.warnings(analysis.params, analysis.gathered)]
    return ["## Conditions", "", *notes, *lines, ""]


def _speed(analysis: Analysis) -> list[str]:
    lines = breakdown.speed(analysis.gathered.variants, list(analysis.params.benchmark.workloads))
    header = ["Workload", "Variant", *(metric.title for _, metric in breakdown.SPEED)]
    return [
        "## Speed by workload",
        "",
        *_grid(header, [[x.workload, x.variant, *map(str, x.cells)] for x in lines]),
        "",
    ]


def _categories(analysis: Analysis) -> list[str]:
    scores = breakdown.categories(analysis.gathered.variants)
    names = list(dict.fromkeys((score.eval_set, score.category) for score in scores))
    header = ["Eval set", "Category", *(row.variant for row in analysis.rows)]
    body = [
        [*name, *(str(score.cell) for score in scores if (score.eval_set, score.category) == name)] for name in names
    ]
    return ["## Quality by category", "", *_grid(header, body), ""] if names else []


def _grid(header: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *body]
    return [f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines]


def _escaped(text: str) -> str:
    """Text that cannot end a table cell, start HTML or break the line."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
