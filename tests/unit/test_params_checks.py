from __future__ import annotations

import copy
from typing import Any

import pytest
from unit.changed_params import SHIPPED, Change, drop, problems, put

from pipeline import params


@pytest.mark.parametrize("section", ["variants", "eval_sets", "gates"])
@pytest.mark.parametrize("name", ["int4.gptq", "int4/gptq", "INT4", "-int4", "int4_gptq", "int 4", "", "int4\n", "é"])
def test_a_name_that_is_no_good_as_file_and_stage_name_is_refused(section: str, name: str) -> None:
    value = next(iter(SHIPPED[section].values()))
    [problem] = problems(put(value, section, name))
    assert problem.startswith(f"{section}: {name!r} is not a valid name; use lower-case letters, digits and '-'")


def test_a_bad_workload_name_is_refused() -> None:
    [problem] = problems(put(SHIPPED["benchmark"]["workloads"]["instruction"], "benchmark", "workloads", "a.b"))
    assert problem.startswith("benchmark.workloads: 'a.b' is not a valid name")


@pytest.mark.parametrize("name", ["8", "int4-gptq", "0-a-", "x"])
def test_good_names_pass(name: str) -> None:
    raw = copy.deepcopy(SHIPPED)
    raw["variants"][name] = raw["variants"]["fp16"]
    assert name in params.parse(raw).variants


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (
            ("variants", "int8", "quantizer"),
            "bitsandbytes-int8",
            "variants.int8.quantizer: unknown quantizer 'bitsandbytes-int8'; did you mean 'bitsandbytes_int8'?",
        ),
        (
            ("variants", "int8", "quantizer"),
            "_gptqmodel",
            "variants.int8.quantizer: unknown quantizer '_gptqmodel'; did you mean 'gptqmodel_awq'?",
        ),
        (
            ("variants", "int8", "engine"),
            "transformer",
            "variants.int8.engine: unknown engine 'transformer'; did you mean 'transformers'?",
        ),
        (
            ("model", "source", "kind"),
            "python-package",
            "model.source.kind: unknown source 'python-package'; did you mean 'python_package'?",
        ),
        (("baseline",), "fp-16", "baseline: no variant 'fp-16'; did you mean 'fp16'?"),
        (
            ("decision", "workload"),
            "instructions",
            "decision.workload: no workload 'instructions'; did you mean 'instruction'?",
        ),
        (
            ("gates", "size", "metric"),
            "weight_byte",
            "gates.size.metric: no metric 'weight_byte'; did you mean 'weight_bytes'?",
        ),
        (
            ("decision", "profile"),
            "chats",
            "decision.profile: no profile 'chats' in decision.profiles; did you mean 'chat'?",
        ),
        (
            ("decision", "frontier"),
            ["qualty"],
            "decision.frontier: 'qualty': no metric 'qualty' that variants can be compared on; did you mean 'quality'?",
        ),
        (
            ("decision", "frontier"),
            ["quality@zh-suport"],
            "decision.frontier: 'quality@zh-suport': no eval set 'zh-suport'; did you mean 'zh-support'?",
        ),
        (
            ("decision", "profiles", "chat", "weights"),
            {"speedup@instruction:3": 1},
            "decision.profiles.chat.weights: 'speedup@instruction:3': instruction is measured with these numbers of "
            "streams only: 1, 2, 4, 8",
        ),
        (
            ("decision", "profiles", "chat", "weights"),
            {"quality_delta": 1},
            "decision.profiles.chat.weights: 'quality_delta': quality_delta compares to the baseline, but not by a "
            "ratio; give another metric",
        ),
        (
            ("decision", "frontier"),
            ["speedup", "speedup@instruction:1"],
            "decision.frontier: an axis is named twice, as speedup and as speedup@instruction:1",
        ),
        (
            ("decision", "frontier"),
            ["quality@support-desk/polciy"],
            "decision.frontier: 'quality@support-desk/polciy': support-desk has no category 'polciy'; did you mean "
            "'policy'?",
        ),
    ],
)
def test_a_name_that_points_nowhere_gets_the_nearest_one(path: tuple[str, ...], value: Any, problem: str) -> None:
    assert problems(put(value, *path)) == [problem]


def test_variants_and_eval_sets_whose_stage_names_collide_are_refused() -> None:
    fp16 = SHIPPED["variants"]["fp16"]
    sets = {"x-desk": {"weight": 1.0}, "desk": {"weight": 1.0}}
    assert problems(put({"fp16": fp16, "fp16-x": fp16}, "variants"), put(sets, "eval_sets")) == [
        "variants.fp16-x: with eval set 'desk' it has the same stage name as variant 'fp16' with 'x-desk'; rename one"
    ]


def test_a_source_without_kind_lists_the_kinds() -> None:
    [problem] = problems(drop("model", "source", "kind"))
    assert problem == "model.source.kind: unknown source None; allowed: hub, local, python_package"


def test_settings_are_those_of_the_source_kind() -> None:
    found = problems(put({"kind": "local", "pth": "model"}, "model", "source"))
    assert found == ["model.source.path: missing", "model.source.pth: unknown key; did you mean 'path'?"]


def test_settings_are_those_of_the_quantizer_of_each_variant() -> None:
    found = problems(put({"outlier_threshold": 6.0}, "variants", "fp16", "settings"))
    assert len(found) == 1
    assert found[0].startswith("variants.fp16.settings.outlier_threshold: unknown key")


def test_an_engine_that_cannot_load_the_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.engines import transformers

    monkeypatch.setattr(transformers, "FORMATS", frozenset({"safetensors", "gptq", "awq"}))
    assert problems(lambda _: None) == [
        "variants.int8: engine 'transformers' cannot load the 'bitsandbytes' format; it loads awq, gptq, safetensors"
    ]


def nf4(store: str) -> Change:
    variant = {"quantizer": "bitsandbytes_nf4", "engine": "transformers", "settings": {"store": store}}
    return put(variant, "variants", "int8")


def test_settings_that_leave_quantizing_to_an_engine_that_does_not_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.engines import transformers

    monkeypatch.setattr(transformers, "QUANTIZES_AT_LOAD", False)
    assert problems(nf4("at_load")) == [
        "variants.int8: engine 'transformers' does not quantize weights while it loads them, and these settings store "
        "unquantized ones for that; change the engine or the settings"
    ]
    [invalid] = problems(nf4("sometimes"))
    assert invalid.startswith("variants.int8.settings.store: ")


@pytest.mark.parametrize(("store", "able"), [("at_load", True), ("packed", False), ("auto", False)])
def test_other_settings_and_engines_are_not(store: str, able: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.engines import transformers

    monkeypatch.setattr(transformers, "QUANTIZES_AT_LOAD", able)
    raw = copy.deepcopy(SHIPPED)
    nf4(store)(raw)
    assert list(params.problems(raw)) == []


@pytest.mark.parametrize(("tokens", "window"), [(1023, 512), (31, 16)])
def test_less_text_than_two_windows_is_refused_with_what_would_do(tokens: int, window: int) -> None:
    short = put(1, "smoke", "texts"), put(16, "smoke", "tokens")
    found = problems(put(tokens, "fidelity", "tokens"), put(window, "fidelity", "window_tokens"), *short)
    assert found == [
        f"fidelity.tokens: {tokens} are fewer than two windows of {window} (fidelity.window_tokens); ask for at least "
        f"{2 * window}, or for shorter windows"
    ]


def test_more_smoke_texts_than_the_fidelity_text_has_are_refused_with_both_numbers() -> None:
    [problem] = problems(put(265, "smoke", "texts"))
    assert problem == (
        "smoke: 265 texts of 32 tokens are 8480, more than the 8448 tokens of the fidelity text that they are cut "
        "from; lower one of them or raise fidelity.tokens"
    )
    enough = copy.deepcopy(SHIPPED)
    enough["smoke"]["texts"] = 264
    assert params.parse(enough).smoke.texts == 264


def test_two_windows_of_text_will_do() -> None:
    raw = copy.deepcopy(SHIPPED)
    raw["fidelity"] |= {"tokens": 1024, "window_tokens": 512}
    raw["smoke"]["texts"] = 32
    assert params.parse(raw).fidelity.tokens == 1024


@pytest.mark.parametrize("bounds", [{}, {"at_least": 0.1, "at_most": 0.2}, {"at_least": None}])
def test_a_gate_needs_exactly_one_bound(bounds: dict[str, float | None]) -> None:
    found = problems(put({"metric": "quality"} | bounds, "gates", "floor"))
    assert found == ["gates.floor: give exactly one of at_least and at_most"]


@pytest.mark.parametrize("bound", [0, 0.0, 1, 0.08])
def test_a_bound_of_zero_or_a_whole_number_is_a_bound(bound: float) -> None:
    raw = copy.deepcopy(SHIPPED)
    raw["gates"]["floor"] = {"metric": "quality", "at_least": bound}
    assert params.parse(raw).gates["floor"].at_least == bound


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ({"metric": "quality_delta", "at_least": -8}, "quality_delta is a share, so -8 is out of reach"),
        ({"metric": "quality", "at_least": 90}, "quality is a share, so 90 is out of reach"),
        ({"metric": "quality_delta", "at_least": 0.9, "relative": True}, "relative to the baseline already"),
        ({"metric": "speedup", "at_least": 1.3, "relative": True}, "relative to the baseline already"),
        (
            {"metric": "decode_tokens_per_s", "at_least": 1.3, "relative": True},
            "give a bound on speedup instead, for which variant and baseline are paired (higher is better)",
        ),
        (
            {"metric": "ttft_s_p50", "at_most": 1.1, "relative": True},
            "give a bound on ttft_speedup instead, for which variant and baseline are paired (higher is better)",
        ),
        ({"metric": "kld_mean", "at_most": 2, "relative": True}, "relative to the baseline already"),
        (
            {"metric": "perplexity", "at_most": 1.1, "relative": True},
            "give a bound on ppl_ratio instead, for which variant and baseline are paired (lower is better)",
        ),
        (
            {"metric": "decode_cost_s_per_token", "at_most": 1.1, "relative": True},
            "give a bound on decode_cost_ratio instead, for which variant and baseline are paired (lower is better)",
        ),
    ],
)
def test_a_bound_that_cannot_be_meant_is_refused(gate: dict[str, Any], words: str) -> None:
    [problem] = problems(put(gate, "gates", "size"))
    assert words in problem


@pytest.mark.parametrize(
    "gate",
    [
        {"metric": "weight_bytes", "at_most": 0.5, "relative": True},
        {"metric": "quality", "at_least": 1.0},
        {"metric": "speedup", "at_least": 1.3},
        {"metric": "decode_tokens_per_s", "at_least": 20, "relative": False},
    ],
)
def test_a_bound_that_can_be_meant_passes(gate: dict[str, Any]) -> None:
    raw = copy.deepcopy(SHIPPED)
    put(gate, "gates", "size")(raw)
    assert params.parse(raw).gates["size"].metric == gate["metric"]


def test_weights_without_a_finite_sum_are_refused() -> None:
    assert problems(put({"speedup": 1e308, "ttft_speedup": 1}, "decision", "profiles", "chat", "weights")) == [
        "decision.profiles.chat.weights.speedup: must be 1,000,000 or less, got 1e+308; only proportions count"
    ]
