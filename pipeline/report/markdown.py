"""The report for a pull request: the decision first, at most `LIMIT` lines."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.metrics import validity
from pipeline.records import Verdict
from pipeline.report import cells, conditions, gates, warnings
from pipeline.report.analysis import Analysis
from pipeline.report.breakdown import (
    changes,
    concurrency,
    failures,
    fidelity,
    memory,
    pairing,
    quality,
    roofline,
    speed,
)
from pipeline.report.rows import NOT_NATIVE, Row

LIMIT = 80
SHOWN_FAILURES = 10
_MARKS = {Verdict.PASS: "✅ PASS", Verdict.FAIL: "❌ FAIL", Verdict.UNDECIDED: "❔ UNDECIDED"}


def render(analysis: Analysis) -> str:
    """Sections that would not fit, however many variants and workloads there are, are named and left to the HTML.

    Headings have no empty line after them: Markdown does without, and it leaves room for one more section.
    """
    kept = [_decision(analysis), _table(analysis)]
    optional = [
        ("Failures", _failures(analysis)),
        ("Conditions", _conditions(analysis)),
        ("Speed-up", _speedups(analysis)),
        ("Speed by workload", _speed(analysis)),
        ("Quality against the baseline", _changes(analysis)),
        ("Quality by category", _categories(analysis)),
        ("Fidelity", _fidelity(analysis)),
        ("Concurrency", _concurrency(analysis)),
        ("Memory", _memory(analysis)),
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
        f"Gates: {_escaped(required) or 'none'}. Ranked by {analysis.ranked_by} ({analysis.tie}).",
        "",
    ]


def _table(analysis: Analysis) -> list[str]:
    currency = analysis.params.serving.currency
    header = ["Variant", *(cells.title(metric, currency) for metric in cells.COLUMNS), "Frontier"]
    body = [
        [_named(row), *(str(cells.of_row(row, metric)) for metric in cells.COLUMNS), row.place or cells.DASH]
        for row in analysis.rows
    ]
    return [
        "## Trade-off",
        *_grid(header, body),
        "",
        f"Speed is that of workload `{analysis.decision.workload}`; intervals are 95 %; pp are percentage points. "
        f"{_escaped(analysis.frontier_words(cells.COLUMNS))}",
        "",
    ]


def _named(row: Row) -> str:
    return f"{row.variant} ({NOT_NATIVE})" if row.kernel_note else row.variant


def _failures(analysis: Analysis) -> list[str]:
    variants = analysis.gathered.variants
    lines = [
        *(
            f"- **{row.variant}** {row.status.value}: {_escaped(row.reason or '')}"
            for row in analysis.rows
            if not row.ok
        ),
        *(f"- **{r.variant}** {validity.INVALID}, {r.what}: {_escaped(r.reason)}" for r in failures.refused(variants)),
        *(f"- **{f.variant}** {f.words}: {_escaped(f.reason)}" for f in failures.lost(variants)),
    ]
    more = [f"- and {len(lines) - SHOWN_FAILURES} more, in report.html"] if len(lines) > SHOWN_FAILURES else []
    return ["## Failures", *lines[:SHOWN_FAILURES], *more, ""] if lines else []


def _conditions(analysis: Analysis) -> list[str]:
    sections = conditions.describe(analysis.params, analysis.gathered)
    lines = [
        f"- **{section.title}**: " + "; ".join(f"{label}: {_escaped(value)}" for label, value in section.lines)
        for section in sections
    ]
    notes = [f"- ⚠ {_escaped(note)}" for note in warnings.of(analysis.params, analysis.gathered)]
    return ["## Conditions", *notes, *lines, ""]


def _speedups(analysis: Analysis) -> list[str]:
    """With what bounds decoding, which is as long."""
    variants = analysis.gathered.variants
    bounds = {line.variant: line.words for line in roofline.lines(variants)}
    lines = [
        f"- **{line.variant}** {_escaped(line.words)}. {_escaped(_sentence(bounds[line.variant]))}"
        for line in pairing.lines(variants, analysis.params)
    ]
    return ["## Speed-up", *lines, ""]


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _speed(analysis: Analysis) -> list[str]:
    """A column for each variant, since a line for each would leave no room for the rest."""
    blocks = speed.by_workload(analysis.gathered.variants, analysis.params)
    header = ["Workload", *(row.variant for row in analysis.rows)]
    body = [
        [f"{block.workload}: {block.words}", *(_figures(analysis, block, place) for place in range(len(analysis.rows)))]
        for block in blocks
    ]
    return [
        "## Speed by workload",
        *_grid(header, body),
        "",
        f"Decode tokens/s of one stream, speed-up against {analysis.baseline.variant} (of itself: two processes of it, "
        "the noise floor), TTFT P50, cost per million output tokens"
        f" ({analysis.params.serving.currency}).",
        "",
    ]


def _figures(analysis: Analysis, block: speed.Block, place: int) -> str:
    evidence = analysis.gathered.variants[place]
    columns = (speed.DECODE, speed.SPEEDUP, speed.TTFT, speed.COST)
    return _joined([column.cell(evidence, block.workload) for column in columns])


def _joined(found: Sequence[cells.Cell]) -> str:
    """Several figures in one cell; one dash where there is none of them."""
    texts = list(map(str, found))
    return cells.DASH if set(texts) == {cells.DASH} else " · ".join(texts)


def _concurrency(analysis: Analysis) -> list[str]:
    swept = concurrency.of(analysis.gathered.variants)
    levels = sorted({line.streams for one in swept for line in one.lines})
    if not levels:
        return []
    header = ["Variant", *(f"× {level}" for level in levels), "In words"]
    body = [[one.variant, *(_level(one, level) for level in levels), one.words] for one in swept]
    return [
        "## Concurrency",
        *_grid(header, body),
        "",
        f"Aggregate tokens/s of `{analysis.params.benchmark.sweep.workload}` and against the baseline's at the same "
        f"number of streams. {concurrency.STATIC_BATCH}",
        "",
    ]


def _level(swept: concurrency.Swept, streams: int) -> str:
    found = next((line for line in swept.lines if line.streams == streams), None)
    return _joined([found.cells[0], found.speedup]) if found else cells.DASH


def _memory(analysis: Analysis) -> list[str]:
    variants = analysis.gathered.variants
    lines = memory.contexts(variants)
    header = ["Variant", *(f"{line.label} {'user' if line.label == '1' else 'users'}" for line in lines)]
    body = [[evidence.variant, *(str(line.cells[place]) for line in lines)] for place, evidence in enumerate(variants)]
    notes = "; ".join((*memory.strangers(variants), *memory.notes(variants)))
    return [
        "## Memory",
        *_grid(header, body),
        "",
        f"Largest context, prompt and output tokens, of each user in {analysis.params.serving.memory_gib:g} GiB. "
        f"{_escaped(notes)}",
        "",
    ]


def _categories(analysis: Analysis) -> list[str]:
    scores = quality.categories(analysis.gathered.variants)
    names = list(dict.fromkeys((score.eval_set, score.category) for score in scores))
    header = ["Eval set", "Category", *(row.variant for row in analysis.rows)]
    body = [
        [*name, *(str(score.cell) for score in scores if (score.eval_set, score.category) == name)] for name in names
    ]
    return ["## Quality by category", *_grid(header, body), ""] if names else []


def _changes(analysis: Analysis) -> list[str]:
    found = changes.of(analysis.gathered.variants)
    return [
        "## Quality against the baseline",
        *(f"- **{change.variant}** {_escaped(change.words)}." for change in found),
        "",
    ]


def _fidelity(analysis: Analysis) -> list[str]:
    lines = [
        f"- **{line.variant}** {_escaped(line.words)}."
        for line in fidelity.lines(analysis.rows, analysis.gathered.variants)
    ]
    return [f"## Fidelity: the next token on `{analysis.params.fidelity.text}`", *lines, ""]


def _grid(header: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *body]
    return [f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines]


def _escaped(text: str) -> str:
    """Text that cannot end a table cell, start HTML or break the line."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
