"""What a reader is told before the numbers."""

from __future__ import annotations

from dataclasses import replace

from pipeline.readings import Side
from pipeline.records import known
from pipeline.report import gather, warnings


def told(project, *evidence):
    params = project.write(*evidence)
    return warnings.of(params, gather.gather(params))


def with_speed(build, name, **changes):
    made = build.evidence(name)
    return replace(made, speed=made.speed.model_copy(update=changes))


def uneven(build, ratios):
    """A workload whose pairs of processes have these decode ratios."""
    pairs = [
        pair.model_copy(update={"process": process})
        for process, ratio in enumerate(ratios)
        for pair in build.pairs(build.request(tpot_s=0.05 / ratio), build.request(), processes=1)
    ]
    return build.workload(pairs=pairs)


def test_a_baseline_at_the_floor_or_the_ceiling_is_told(project, build):
    assert any("fails nearly every item" in text for text in told(project, build.evidence("fp16", [0] * 40)))
    assert any("passes nearly every item" in text for text in told(project, build.evidence("fp16", [1] * 40)))
    assert not any("nearly every" in text for text in told(project, build.evidence("fp16", [1, 0] * 20)))


def test_speed_ups_that_are_less_precise_than_asked_are_told_together(project, build):
    # Over three processes at -10 %, 0, +10 % of 1.2; the baseline and int4 have intervals of the least spread, ± 2.8 %.
    noisy = with_speed(build, "int8", workloads=[uneven(build, [1.08, 1.2, 1.32])])
    [text] = [t for t in told(project, build.evidence("fp16"), noisy, build.evidence("int4")) if "asked for" in t]
    assert text.startswith("Speed-ups known less well than the ± 3 % asked for, when the measurement ended: int8 (± ")
    assert "fp16 (" not in text
    assert "int4 (" not in text
    assert text.endswith("Gates on the speed-up and the ranking by speed use the intervals.")
    assert not any("asked for" in t for t in told(project, build.evidence("fp16"), build.evidence("int4")))


def test_a_noise_floor_without_1_is_told(project, build):
    biased = with_speed(build, "fp16", workloads=[build.workload(tpot_s=0.05 / 1.1)])
    [text] = [text for text in told(project, biased) if "favours" in text]
    assert text.startswith("The baseline against itself is 1.10× (1.07 to 1.13), an interval without 1")
    # The same interval of another variant is a speed-up.
    other = with_speed(build, "int8", workloads=[build.workload(tpot_s=0.05 / 1.1)])
    assert not any("favours" in text for text in told(project, build.evidence("fp16"), other))


def test_an_invalid_record_is_told_with_its_reason(project, build):
    swapped = build.process(1, Side.BASELINE, swap_bytes=known(3 * 2**20))
    speed = build.speed("int8")
    ours = replace(build.evidence("int8"), speed=speed.model_copy(update={"processes": [*speed.processes, swapped]}))
    assert "The times and speed-ups of int8 are INVALID: 3.00 MiB of the worker were in swap." in told(
        project, build.evidence("fp16"), ours
    )


def test_record_files_that_are_not_named_are_told(project, build):
    params = project.write(build.evidence("fp16"), build.evidence("int8"))
    project.raw["variants"].pop("int8")
    params = project.write(build.evidence("fp16"))
    [text] = [text for text in warnings.of(params, gather.gather(params)) if "Left out" in text]
    assert text.startswith(
        "Left out, since params.yaml does not name it: 6 record files, such as reports/fidelity/int8.json"
    )


def test_variants_on_another_engine_than_the_baseline_s_are_told_together(project, build):
    apart = {"engine": build.engine(name="llama_cpp"), "baseline_engine": build.engine()}
    found = told(project, build.evidence("fp16"), with_speed(build, "q8", **apart), with_speed(build, "q4", **apart))
    [text] = [text for text in found if "as well as the weights" in text]
    assert text.startswith("Measured on llama_cpp, and their baseline on transformers: q8, q4. ")
    assert "an unquantized variant on llama_cpp" in text
    alike = {"engine": build.engine(), "baseline_engine": build.engine()}
    found = told(project, build.evidence("fp16"), with_speed(build, "q8", **alike))
    assert not any("as well as the weights" in text for text in found)
