"""The conditions in words, and the hashes that tell whether records are still current."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from pipeline import __version__
from pipeline.artifact_records import CalibrationUse
from pipeline.params import Params
from pipeline.readings import Alternation
from pipeline.records import Gpu
from pipeline.report import conditions, gather


def described(project, *evidence) -> dict[str, dict[str, str]]:
    params = project.write(*evidence)
    return {s.title: dict(s.lines) for s in conditions.describe(params, gather.gather(params))}


def test_runtime_and_kernels(project, build):
    engine = build.engine(
        kernels={"Linear8bitLt": 210},
        fallback_kernels={"Linear8bitLt": "turns int8 to float32"},
        settings={"cores": "0, 1", "waiting": "passive", "allocator": "retain"},
    )
    fp16 = replace(build.evidence("fp16"), speed=build.speed("fp16", engine=engine))
    found = described(project, fp16)["Engine"]
    assert {key: found[key] for key in ("Threads", "Cores", "Waiting", "Allocator")} == {
        "Threads": "2",
        "Cores": "0, 1",
        "Waiting": "passive",
        "Allocator": "retain",
    }
    assert found["Kernels of fp16"] == (
        "Linear8bitLt × 210; kernel not native here: speed not representative (Linear8bitLt turns int8 to float32)"
    )


def test_workloads_say_what_is_asked_and_how_often(project, build):
    project.raw["benchmark"]["workloads"]["code"] = {
        "text": "workloads/b.txt",
        "prompt_tokens": 256,
        "output_tokens": 16,
        "concurrency": 4,
        "pairs": 1,
    }
    project.raw["benchmark"]["sweep"]["concurrency"] = [1, 2, 4]
    assert described(project, build.evidence("fp16"))["Workloads"] == {
        "instruction": "200 prompt tokens, 32 output tokens, 1 stream, 7 pairs in each pair of processes; stands in "
        "the table and decides",
        "code": "256 prompt tokens, 16 output tokens, 4 streams, 1 pair in each pair of processes",
        "Decoding": "the likeliest token each time, exactly as many as stand above: no end token stops an answer",
        "Sweep": "instruction at 1, 2, 4 streams",
    }


def test_graphics_cards_that_are_alike_are_counted(project, build):
    card = {"name": "H200", "memory_bytes": 2**37, "driver": "550.1"}
    machine = build.environment.model_copy(update={"gpus": [Gpu(**card), Gpu(**card)], "gpu_reason": None})
    found = dict(conditions._machine_lines(machine))
    assert found["GPU"] == "2 × H200, 128.00 GiB each, driver 550.1"
    assert found["System"].endswith(f"quantgate {__version__}")


def test_how_a_variant_is_stored_is_told(project, build):
    assert described(project, build.evidence("fp16"))["Variants"]["fp16"] == (
        "quantizer fp16; stored at 16.00 bits per weight"
    )


def test_how_each_variant_was_measured(project, build):
    blocks = build.speed("int8", alternation=Alternation.BLOCKS, alternation_reason="3.2 GiB needed")
    found = described(
        project,
        build.evidence("fp16"),
        replace(build.evidence("int8"), speed=blocks),
        build.failed("int4"),
    )["Speed"]
    assert found["Pairs of processes"] == (
        "at least 3, then more on instruction until its speed-up is known to ± 3.0 % or 60 s are spent"
    )
    assert found["fp16"] == (
        "both models stayed loaded and took turns request by request; 3 pairs of processes measured to the end, "
        "60.0 s in all"
    )
    assert found["int8"].startswith("one model was loaded at a time, in blocks: 3.2 GiB needed; 3 pairs of processes")
    assert found["int4"] == "not measured"


def test_what_is_served(project, build):
    found = described(project, build.evidence("fp16"))["Serving"]
    assert found["Objective"] == "TTFT ≤ 500 ms and TPOT ≤ 100 ms"
    assert (found["Memory"], found["Price"]) == ("4 GiB", "0.360 USD per hour")


def test_the_fidelity_text_is_named(project, build):
    assert described(project, build.evidence("fp16"), build.failed("int8"))["Fidelity"] == {
        "Text": f"fidelity/general.txt, sha256 of its tokens {build.fidelity('fp16').text_sha256[:12]}",
        "Tokens": "the first 8,448 of the text, 2,048 of them scored",
        "Window": "512 tokens, each read with nothing before it; its first one is not scored",
    }
    nothing = described(project, build.failed("fp16"))["Fidelity"]
    assert (nothing["Text"][-3:], nothing["Tokens"]) == ("s –", "the first 8,448 of the text, none scored")


@pytest.mark.parametrize(
    ("path", "value", "part"),
    [
        (("fidelity", "tokens"), 4096, "fidelity"),
        (("fidelity", "text"), "mine.txt", "fidelity"),
        (("benchmark", "pairing", "processes"), 4, "benchmark.pairing"),
        (("benchmark", "pairing", "half_width"), 0.01, "benchmark.pairing"),
        (("benchmark", "sweep", "concurrency"), [1, 2], "benchmark.sweep"),
        (("benchmark", "workloads", "instruction", "pairs"), 8, "benchmark.workloads"),
        (("runtime", "allocator"), "default", "runtime"),
        (("decision", "workload"), "other", "decision.workload"),
        (("baseline",), "int8", "baseline"),
    ],
)
def test_hashes_follow_what_is_measured(project, build, path, value, part):
    before = project.write(build.evidence("fp16"))
    raw = copy.deepcopy(project.raw)
    inner = raw
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    after = Params.model_validate(raw)
    old, new = conditions.params_sha256(before), conditions.params_sha256(after)
    assert [name for name in old if old[name] != new[name]] == [part]
    gathered = gather.gather(before)
    assert conditions.sha256(before, gathered) != conditions.sha256(after, gathered)


def test_the_bounds_of_the_smoke_gate_decide_what_is_measured_but_not_how(project, build):
    before = project.write(build.evidence("fp16"))
    after = before.model_copy(update={"smoke": before.smoke.model_copy(update={"kld_max": 9.0})})
    old, new = conditions.params_sha256(before), conditions.params_sha256(after)
    assert [name for name in old if old[name] != new[name]] == ["smoke"]
    gathered = gather.gather(before)
    assert conditions.sha256(before, gathered) == conditions.sha256(after, gathered)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("serving", "memory_gib", 8.0),
        ("serving", "price_per_hour", 1.0),
        ("serving", "max_spread", 0.5),
        ("benchmark", "timeout_s", 9),
        ("fidelity", "timeout_s", 9),
        ("smoke", "timeout_s", 9),
        ("decision", "tie", 0.2),
    ],
)
def test_what_is_only_read_or_decided_changes_no_hash(project, build, section, key, value):
    before = project.write(build.evidence("fp16"))
    raw = copy.deepcopy(project.raw)
    raw[section][key] = value
    after = Params.model_validate(raw)
    assert conditions.params_sha256(before) == conditions.params_sha256(after)
    gathered = gather.gather(before)
    assert conditions.sha256(before, gathered) == conditions.sha256(after, gathered)


def test_calibration_says_how_many_of_how_many_samples_were_used(project, build):
    """Those that were not drawn were not dropped."""
    use = CalibrationUse(
        set_name="general",
        set_version="1.0.0",
        sha256="c" * 64,
        samples_total=92,
        samples_kept=16,
        samples_dropped=76,
        tokens=6146,
    )
    fp16, int8 = build.evidence("fp16"), build.evidence("int8")
    int8 = replace(int8, quantize=int8.quantize.model_copy(update={"calibration": use}))
    words = described(project, fp16, int8)["Variants"]["int8"]
    assert words.endswith("; calibrated on general 1.0.0: 16 of 92 samples, 6146 tokens")
