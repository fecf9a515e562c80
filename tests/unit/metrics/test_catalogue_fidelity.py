from __future__ import annotations

import math
from dataclasses import replace

import pytest
from unit.metrics.catalogued import value

from pipeline.records import Status


def near(build, **changes):
    """Half of 64 blocks cost 2.1 nats a token where the baseline's cost 2, and differ at 8 of 64 tokens."""
    blocks = [build.block(), build.block(2.1, 2.0, kld=0.04, agreed=56)] * 32
    record = build.fidelity("int8", blocks, **({"kld_p99": 0.5, "kld_max": 1.5} | changes))
    return replace(build.evidence("int8", baseline=build.evidence()), fidelity=record)


def test_how_near_a_variant_is_to_the_baseline(build):
    ours = near(build)
    # A mean of 0.05 more nats a token
    assert value("ppl_ratio", ours).value == pytest.approx(math.exp(0.05))
    assert value("perplexity", ours).value == pytest.approx(math.exp(2.05))
    assert value("kld_mean", ours).value == pytest.approx(0.02)
    assert value("top1_agreement", ours).value == pytest.approx(1 - 4 / 64)
    assert (value("kld_p99", ours).value, value("kld_max", ours).value) == (0.5, 1.5)
    # 64 blocks of 0 or 0.1: a standard error of 0.05 / 8
    for name, middle, half in (("kld_mean", 0.02, 0.0049), ("top1_agreement", 0.9375, 0.0153)):
        assert value(f"{name}_ci_low", ours).value == pytest.approx(middle - half, abs=half / 5)
        assert value(f"{name}_ci_high", ours).value == pytest.approx(middle + half, abs=half / 5)
    assert value("ppl_ratio_ci_low", ours).value == pytest.approx(math.exp(0.05 - 0.01225), abs=0.003)
    assert value("ppl_ratio_ci_high", ours).value == pytest.approx(math.exp(0.05 + 0.01225), abs=0.003)


def test_the_baseline_loaded_twice_is_measured_too(build):
    base = build.evidence()
    assert [value(name, base).value for name in ("ppl_ratio", "kld_mean", "kld_max", "top1_agreement")] == [1, 0, 0, 1]
    noisy = replace(base, fidelity=build.fidelity("fp16", [build.block(kld=0.001)] * 32, kld_max=0.002))
    assert value("kld_mean", noisy).value == pytest.approx(0.001)


def test_figures_of_the_text_that_could_not_be_had_say_why(build):
    failed = near(build, status=Status.FAILED, reason="killed")
    names = ("ppl_ratio", "kld_mean_ci_low", "top1_agreement", "perplexity", "kld_p99", "kld_max")
    assert {value(name, failed).reason for name in names} == {"fidelity failed: killed"}
    assert (failed.status, failed.reason) == (Status.FAILED, "fidelity: killed")
    short = near(build, kld_p99=None)
    assert value("kld_p99", short).reason == "P99 needs 100 tokens of text, there are 4096"
    alone = replace(short, fidelity=short.fidelity.model_copy(update={"blocks": []}))
    assert {value(name, alone).reason for name in names} == {"the baseline has no sound artifact to compare with"}
    assert alone.status is Status.OK
