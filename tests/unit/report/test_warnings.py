"""What a reader is told before the numbers."""

from dataclasses import replace

from pipeline.records import RequestReading
from pipeline.report import conditions, gather


def warnings(project, *evidence):
    params = project.write(*evidence)
    return conditions.warnings(params, gather.gather(params))


def uneven(build, seconds):
    """One workload whose requests take the given time for each token after the first."""
    requests = [RequestReading(token_s=[0.1, 0.1 + second]) for second in seconds]
    return build.workload().model_copy(update={"output_tokens": 2, "requests": requests})


def test_a_baseline_at_the_floor_or_the_ceiling_is_told(project, build):
    assert any("fails nearly every item" in text for text in warnings(project, build.evidence("fp16", [0] * 40)))
    assert any("passes nearly every item" in text for text in warnings(project, build.evidence("fp16", [1] * 40)))
    assert not any("nearly every" in text for text in warnings(project, build.evidence("fp16", [1, 0] * 20)))


def test_unsteady_speed_is_told_with_its_spread(project, build):
    # Rates 10, 10, 10, 20, 20 tokens/s: P25 10, P50 10, P75 20, so the middle half spreads over 100 % of the median.
    noisy = replace(build.evidence("fp16"), speed=build.speed("fp16", [uneven(build, [0.1, 0.1, 0.1, 0.05, 0.05])]))
    [text] = [text for text in warnings(project, noisy) if "unsteady" in text]
    assert "The speed of fp16 was unsteady" in text
    assert "100 %" in text
    steady = replace(noisy, speed=build.speed("fp16", [uneven(build, [0.1, 0.101, 0.1, 0.099, 0.1])]))
    assert not any("unsteady" in text for text in warnings(project, steady))
