"""The report for a pull request: the decision first, and never more than `LIMIT` lines, whatever the records hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.metrics.catalogue import BY_NAME
from pipeline.records import VariantDecision, Verdict
from pipeline.report import cells, conditions, gates, report_json, warnings
from pipeline.report.analysis import Analysis
from pipeline.report.breakdown.words import counted
from pipeline.report.markdown_text import escaped, grid, shortened
from pipeline.report.rows import NOT_NATIVE, Row

LIMIT = 80
PLOT, FULL, MACHINES = "report.svg", "report.html", "report.json"
"""Files beside this report: its picture, the report for people, and the one for machines."""
MOST_VARIANTS, MOST_REASONS, MOST_LACKS, MOST_GATES, MOST_OPEN, MOST_FAILURES, MOST_WARNINGS = 14, 10, 4, 6, 7, 6, 5
"""Lines of each part. With headings and what is always there they make `LIMIT`."""
_MARKS = {Verdict.PASS: "✅ PASS", Verdict.FAIL: "❌ FAIL", Verdict.UNDECIDED: "❔ UNDECIDED"}
_COLUMNS = tuple(
    BY_NAME[name]
    for name in (
        "quality_delta",
        "speedup",
        "ttft_s_p50",
        "weight_bytes",
        "peak_memory_bytes",
        "cost_per_million_tokens",
    )
)
_SHORT = {
    "Model": ("Name", "Revision"),
    "Machine": ("CPU", "GPU", "Memory", "System"),
    "Engine": ("Engine", "Packages", "Device", "Compute dtype"),
}
"""The conditions without which no number means anything; the others stand in the full report."""


def render(analysis: Analysis) -> str:
    """Headings have no empty line after them: Markdown does without, and it leaves room for what matters."""
    parts = [
        [f"# {escaped(analysis.decision.headline)}", "", f"![Quality against decode speed]({PLOT})", ""],
        _table(analysis),
        _lacking(analysis),
        _reasons(analysis),
        _gates(analysis),
        _open_gates(analysis),
        _failures(analysis),
        _conditions(analysis),
        _more(),
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


def _table(analysis: Analysis) -> list[str]:
    currency = analysis.params.serving.currency
    header = ["Variant", "Verdict", *(escaped(cells.title(metric, currency)) for metric in _COLUMNS)]
    kept, left = _kept(analysis)
    body = [
        [
            _named(row, analysis.decision.pick),
            _MARKS[decided.verdict],
            *(escaped(str(cells.of_row(row, metric))) for metric in _COLUMNS),
        ]
        for row, decided in kept
    ]
    more = f" {counted(left, 'more variant is', 'more variants are')} in {FULL} and pareto.csv." if left else ""
    return [
        *grid(header, body),
        "",
        f"Speed is that of workload {escaped(analysis.decision.workload)}, measured in turns with "
        f"{escaped(analysis.baseline.variant)}; in brackets 95 % intervals; pp are percentage points. "
        f"Ranked by {escaped(analysis.ranked_by)}.{_profiles(analysis)}{more}",
        "",
    ]


def _profiles(analysis: Analysis) -> str:
    """What each other profile would ship."""
    decision = analysis.decision
    others = {name: pick for name, pick in decision.profiles.items() if name != decision.profile}
    told = ", ".join(f"{name}: {pick or 'none'}" for name, pick in others.items())
    return f" Under the other profiles: {escaped(told)}." if others else ""


def _lacking(analysis: Analysis) -> list[str]:
    """Only where nothing can be shipped."""
    lines = [f"- {escaped(each)}" for each in analysis.decision.would_have_to_give]
    return _part("What would have to give", lines, MOST_LACKS, "variants")


def _kept(analysis: Analysis) -> tuple[list[tuple[Row, VariantDecision]], int]:
    """The variants that the table has room for, in their order, and how many it has not: recommended and baseline
    stay in, then those with the better verdict, then the first ones."""
    decided = analysis.decided()
    rank = {Verdict.PASS: 1, Verdict.UNDECIDED: 2, Verdict.FAIL: 3}

    def importance(place: int) -> tuple[int, int]:
        row, found = decided[place]
        always = row.variant == analysis.decision.pick or row.is_baseline
        return (0 if always else rank[found.verdict], place)

    kept = sorted(sorted(range(len(decided)), key=importance)[:MOST_VARIANTS])
    return [decided[place] for place in kept], len(decided) - len(kept)


def _named(row: Row, pick: str | None) -> str:
    name = f"**{escaped(row.variant)}**" if row.variant == pick else escaped(row.variant)
    return f"{name} ({NOT_NATIVE})" if row.kernel_note else name


def _reasons(analysis: Analysis) -> list[str]:
    """The recommended variant first. What is undecided stands below, with what would decide it."""
    decided = sorted(
        (found for found in analysis.decision.variants if found.verdict is not Verdict.UNDECIDED),
        key=lambda found: (found.variant != analysis.decision.pick, found.verdict is Verdict.FAIL),
    )
    return _part("Why", _bullets((each.variant, each.why) for each in decided), MOST_REASONS, "variants")


def _gates(analysis: Analysis) -> list[str]:
    asked = analysis.params.gates.items()
    words = _bullets((name, gates.describe(gate, analysis.baseline)) for name, gate in asked)
    return _part("Gates", words, MOST_GATES, "gates") or ["No gates are asked for.", ""]


def _open_gates(analysis: Analysis) -> list[str]:
    """Of variants that fail no gate: more items would not save the others."""
    found = [
        (f"{decided.variant}, {verdict.gate}", verdict.reason)
        for decided in analysis.decision.variants
        if decided.verdict is Verdict.UNDECIDED
        for verdict in decided.gates
        if verdict.verdict is Verdict.UNDECIDED
    ]
    return _part("Open gates, and what would decide them", _bullets(found), MOST_OPEN, "open gates")


def _failures(analysis: Analysis) -> list[str]:
    found = ((each.variant, f"{each.what}: {each.reason}") for each in report_json.failed(analysis))
    return _part("Failures", _bullets(found), MOST_FAILURES, "failures")


def _conditions(analysis: Analysis) -> list[str]:
    notes = [f"- ⚠ {escaped(note)}" for note in warnings.of(analysis.params, analysis.gathered)]
    sections = {section.title: section.lines for section in conditions.describe(analysis.params, analysis.gathered)}
    lines = [
        f"- **{title}**: "
        + "; ".join(escaped(f"{label}: {value}") for label, value in sections[title] if label in kept)
        for title, kept in _SHORT.items()
    ]
    sets = escaped(", ".join(analysis.params.eval_sets))
    items = max(evidence.items for evidence in analysis.gathered.variants)
    lines.append(f"- **Eval sets**: {sets}; {items:,} items")
    return ["## Conditions", *shortened(notes, MOST_WARNINGS, "warnings", FULL), *lines, ""]


def _more() -> list[str]:
    return [
        f"Everything else (speed by workload and concurrency, memory, categories, each lost item, all conditions): "
        f"`{FULL}`, made by `dvc repro --single-item report`; for machines `{MACHINES}` and `pareto.csv`."
    ]


def _bullets(found: Iterable[tuple[str, str]]) -> list[str]:
    return [f"- **{escaped(name)}**: {escaped(words)}" for name, words in found]


def _part(title: str, lines: Sequence[str], most: int, what: str) -> list[str]:
    """A heading with at most so many lines; nothing where there are none."""
    return [f"## {title}", *shortened(lines, most, what, FULL), ""] if lines else []
