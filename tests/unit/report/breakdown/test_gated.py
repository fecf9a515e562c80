from __future__ import annotations

from pipeline.records import Verdict
from pipeline.report.analysis import analyse
from pipeline.report.breakdown import gated
from pipeline.report.cells import Cell


def test_each_gate_has_what_was_measured_on_its_own_part(project, build):
    fp16 = build.evidence("fp16", [1.0] * 24)
    ours = build.evidence("int8", [0.0] * 3 + [1.0] * 21)
    category = ours.quality[0].items[0].category
    lost = sum(item.category == category and not item.passed for item in ours.quality[0].items)
    asked = {"metric": "flips_lost", "eval_set": "support-desk", "category": category, "at_most": 0}
    project.raw["gates"] = {"lost": {"metric": "flips_lost", "at_most": 3}, "lost-here": asked}
    whole, part = gated.lines(analyse(project.write(fp16, ours)))
    assert (whole.gate, part.gate) == ("lost", "lost-here")
    assert whole.lines[1].measured == Cell("3")
    assert 0 < lost < 3
    assert (part.lines[1].measured, part.lines[1].verdict) == (Cell(str(lost)), Verdict.FAIL)
    assert category in part.requirement
    assert [line.variant for line in part.lines] == ["fp16", "int8"]


def test_a_failed_variant_has_its_reason(project, build):
    project.raw["gates"] = {"memory": {"metric": "weight_bytes", "at_most": 10**9}}
    (found,) = gated.lines(analyse(project.write(build.evidence("fp16"), build.failed("int4"))))
    assert found.lines[1].verdict is Verdict.FAIL
    assert found.lines[1].measured.text == "–"
    assert "out of memory" in found.lines[1].reason
