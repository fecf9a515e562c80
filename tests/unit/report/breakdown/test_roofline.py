from __future__ import annotations

from pipeline.readings import DeviceLimits
from pipeline.records import known, missing
from pipeline.report.breakdown import roofline


def test_shares_and_words_of_a_variant(gathered, build):
    """(257 MiB + 23040 × 216 bytes) × 20 steps/s / 20e9; 2 × 134,515,008 × 20 / 5e11."""
    _, found = gathered(build.evidence("fp16"))
    [line] = roofline.lines(found)
    assert (line.mbu.text, line.mfu.text) == ("27.4 %", "1.1 %")
    assert line.words.startswith(
        "bound by overhead (Python, kernel launches, unpacking of weights): decoding takes only"
    )


def test_what_the_device_can_do_is_the_best_of_all_probes(gathered, measured):
    slow = DeviceLimits(bytes_per_s={"copy": 10e9, "read": 30.04e9}, array_bytes=1, flops_per_s=known(4e11))
    fast = DeviceLimits(bytes_per_s={"copy": 25e9}, array_bytes=1, flops_per_s=missing("not measured"))
    _, found = gathered(measured("fp16", limits=slow), measured("int8", limits=fast))
    assert roofline.device(found) == (
        "By probes in the workers this device moves at best 30.0 GB/s (copy 25.0, read 30.0) and computes at best 400 "
        "billion operations per second in a matrix product."
    )


def test_every_variant_is_a_share_of_the_same_ceilings(gathered, measured):
    """Both decode alike, so a probe of either one must count for both."""
    slow, fast = (
        DeviceLimits(bytes_per_s={"read": rate}, array_bytes=1, flops_per_s=known(5e11)) for rate in (20e9, 40e9)
    )
    _, found = gathered(measured("fp16", limits=slow), measured("a", limits=slow), measured("b", limits=fast))
    assert [line.mbu.text for line in roofline.lines(found)] == ["13.7 %"] * 3


def test_without_a_probe_nothing_is_claimed(gathered, measured):
    _, found = gathered(measured("fp16", limits=None))
    assert roofline.device(found) == ""
    [line] = roofline.lines(found)
    assert (line.mbu.text, line.mbu.reason) == ("–", "the memory bandwidth was not measured")
    assert line.words.startswith("what bounds decoding is not known")


def test_a_failed_variant_says_why(gathered, build):
    _, found = gathered(build.evidence("fp16"), build.failed("int8"))
    assert roofline.lines(found)[1].words == "benchmark failed: there is no artifact"
