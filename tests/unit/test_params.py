from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline import params
from pipeline.errors import UserError

ROOT = Path(__file__).parents[2]
SHIPPED: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))

Change = Callable[[dict[str, Any]], Any]


def problems(*changes: Change) -> list[str]:
    """What is said of the shipped params.yaml after the changes, without the leading file name."""
    raw = copy.deepcopy(SHIPPED)
    for change in changes:
        change(raw)
    with pytest.raises(UserError) as caught:
        params.parse(raw)
    assert all(problem.startswith("params.yaml: ") for problem in caught.value.problems)
    return [problem.removeprefix("params.yaml: ") for problem in caught.value.problems]


def put(value: Any, *path: str) -> Change:
    """A change that sets the value at a path."""

    def change(raw: dict[str, Any]) -> None:
        for key in path[:-1]:
            raw = raw[key]
        raw[path[-1]] = value

    return change


def drop(*path: str) -> Change:
    def change(raw: dict[str, Any]) -> None:
        for key in path[:-1]:
            raw = raw[key]
        del raw[path[-1]]

    return change


def test_the_shipped_file_holds_the_four_variants() -> None:
    settings = params.load(ROOT / "params.yaml")
    assert settings.baseline == "fp16"
    assert {name: variant.quantizer for name, variant in settings.variants.items()} == {
        "fp16": "fp16",
        "int8": "bitsandbytes_int8",
        "int4-gptq": "gptqmodel_gptq",
        "int4-awq": "gptqmodel_awq",
    }
    kind, source = settings.model.source_settings()
    assert kind == "python_package"
    assert "kind" not in source
    assert settings.benchmark.pairing.processes >= 3


def test_parsed_params_cannot_be_changed() -> None:
    settings = params.parse(copy.deepcopy(SHIPPED))
    with pytest.raises(ValueError, match="frozen"):
        settings.seed = 1


@pytest.mark.parametrize(
    ("path", "near"),
    [
        (("baselin",), "baseline"),
        (("model", "licens"), "licence"),
        (("runtime", "compute_dtype", "cud"), "cuda"),
        (("variants", "int8", "quantiser"), "quantizer"),
        (("variants", "int4-gptq", "settings", "group_sze"), "group_size"),
        (("variants", "int4-awq", "settings", "calibration", "smples"), "samples"),
        (("benchmark", "workloads", "instruction", "prompt_token"), "prompt_tokens"),
        (("eval_sets", "support-desk", "wieght"), "weight"),
        (("gates", "size", "at_mots"), "at_most"),
        (("model", "source", "versoin"), "version"),
    ],
)
def test_an_unknown_key_is_named_with_its_place_and_the_nearest_key(path: tuple[str, ...], near: str) -> None:
    assert problems(put(1, *path)) == [f"{'.'.join(path)}: unknown key; did you mean {near!r}?"]


def test_an_unknown_key_near_to_none_lists_the_allowed_ones() -> None:
    assert problems(put(1, "runtime", "zzz")) == [
        "runtime.zzz: unknown key; allowed: allocator, compute_dtype, cores, device, threads, waiting"
    ]


def test_all_mistakes_are_reported_at_once() -> None:
    found = problems(
        put(1, "baselin"),
        put("two", "runtime", "threads"),
        drop("decision", "workload"),
        put("bitsandbyte_int8", "variants", "int8", "quantizer"),
        put(128, "variants", "int4-gptq", "settings", "group_sze"),
        put("int9", "baseline"),
        put({"metric": "weight_byte", "at_most": 1}, "gates", "size"),
        put(SHIPPED["variants"]["fp16"], "variants", "FP.8"),
    )
    places = {problem.split(":")[0] for problem in found}
    assert places == {
        "baselin",
        "runtime.threads",
        "decision.workload",
        "variants.int8.quantizer",
        "variants.int4-gptq.settings.group_sze",
        "baseline",
        "gates.size.metric",
        "variants",
    }
    assert len(found) == 8


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("seed",), "0"),
        (("seed",), 1.5),
        (("seed",), True),
        (("runtime",), None),
        (("runtime", "device"), "gpu"),
        (("runtime", "compute_dtype", "cpu"), "fp32"),
        (("runtime", "threads"), 0),
        (("variants",), ["fp16"]),
        (("variants",), {}),
        (("variants", "int8"), None),
        (("variants", "int8", "settings"), None),
        (("variants", "int8", "settings", "outlier_threshold"), "6"),
        (("variants", "int8", "settings", "outlier_threshold"), -1.0),
        (("variants", "int4-gptq", "settings", "bits"), 5),
        (("variants", "int4-gptq", "settings", "group_size"), 100),
        (("variants", "int4-gptq", "settings", "sym"), "yes"),
        (("variants", "int4-gptq", "settings", "damp_percent"), 1.0),
        (("variants", "int4-gptq", "settings", "calibration", "samples"), 0),
        (("benchmark", "workloads"), {}),
        (("benchmark", "workloads", "instruction", "prompt_tokens"), "200"),
        (("benchmark", "workloads", "instruction", "output_tokens"), 1),
        (("benchmark", "workloads", "instruction", "pairs"), 0),
        (("benchmark", "pairing", "processes"), 2),
        (("benchmark", "pairing", "half_width"), 1.0),
        (("benchmark", "sweep", "concurrency"), 4),
        (("runtime", "cores"), "0"),
        (("runtime", "allocator"), "jemalloc"),
        (("serving", "objective", "ttft_s"), 0.0),
        (("evaluate", "batch_size"), 2.5),
        (("fidelity", "window_tokens"), 15),
        (("fidelity", "tokens"), "8448"),
        (("fidelity", "text"), 3),
        (("smoke", "texts"), 0),
        (("smoke", "tokens"), 15),
        (("smoke", "prompts"), 0),
        (("smoke", "kld_max"), 0.0),
        (("smoke", "kld_max"), "3"),
        (("smoke", "top1_min"), 1.1),
        (("smoke", "top1_min"), -0.1),
        (("eval_sets", "support-desk", "weight"), 0),
        (("gates", "size", "relative"), "true"),
        (("decision", "prefer"), "quality"),
        (("decision", "prefer"), []),
        (("decision", "tie"), 1.0),
        (("model", "source", "wheel_sha256"), "abc"),
        (("model", "name"), 135),
    ],
)
def test_a_wrong_type_or_value_is_named_with_its_place_and_what_was_given(path: tuple[str, ...], value: Any) -> None:
    [problem] = problems(put(value, *path))
    assert problem.startswith(".".join(path))
    assert problem.endswith(f"got {value!r}")


@pytest.mark.parametrize(
    "path",
    [
        ("model",),
        ("model", "licence"),
        ("baseline",),
        ("benchmark",),
        ("decision", "prefer"),
        ("variants", "int8", "engine"),
        ("variants", "int4-awq", "settings", "calibration"),
        ("variants", "int4-awq", "settings", "calibration", "samples"),
        ("model", "source", "file"),
        ("benchmark", "workloads", "instruction", "text"),
        ("fidelity",),
        ("fidelity", "window_tokens"),
        ("smoke",),
        ("smoke", "kld_max"),
        ("smoke", "top1_min"),
    ],
)
def test_a_missing_key_is_named_with_its_place(path: tuple[str, ...]) -> None:
    assert f"{'.'.join(path)}: missing" in problems(drop(*path))


@pytest.mark.parametrize("section", ["variants", "eval_sets", "gates"])
@pytest.mark.parametrize("name", ["int4.gptq", "int4/gptq", "INT4", "-int4", "int4_gptq", "int 4", "", "int4\n", "é"])
def test_a_name_that_is_no_good_as_file_and_stage_name_is_refused(section: str, name: str) -> None:
    value = next(iter(SHIPPED[section].values()))
    [problem] = problems(put(value, section, name))
    assert problem.startswith(f"{section}: {name!r} is not a valid name; use lower-case letters, digits and '-'")


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


JUDGE = {"base_url": "http://localhost:8000/v1", "model": "m"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"modle": "m"}, "judge.modle: unknown key; did you mean 'model'?"),
        ({"base_url": "localhost:8000"}, "judge.base_url: string should match pattern"),
        ({"model": ""}, "judge.model: string should have at least 1 character"),
        ({"timeout_s": 0}, "judge.timeout_s: input should be greater than 0"),
        ({"attempts": 0}, "judge.attempts: input should be greater than or equal to 1"),
        ({"concurrency": 0}, "judge.concurrency: input should be greater than or equal to 1"),
        ({"seed": "0"}, "judge.seed: input should be a valid integer"),
    ],
)
def test_a_mistake_in_the_judge_is_named_with_its_place(changes: dict[str, Any], words: str) -> None:
    [problem] = problems(put(JUDGE | changes, "judge"))
    assert problem.startswith(words)


def test_a_judge_is_off_in_the_shipped_file_and_needs_an_address_and_a_model() -> None:
    assert params.parse(copy.deepcopy(SHIPPED)).judge is None
    assert problems(drop("judge")) == ["judge: missing"]
    assert problems(put({}, "judge")) == ["judge.base_url: missing", "judge.model: missing"]
    judge = params.parse(SHIPPED | {"judge": JUDGE}).judge
    assert judge is not None
    assert (judge.model, judge.api_key_env, judge.timeout_s) == ("m", None, 60)


def test_two_windows_of_text_will_do() -> None:
    raw = copy.deepcopy(SHIPPED)
    raw["fidelity"] |= {"tokens": 1024, "window_tokens": 512}
    raw["smoke"]["texts"] = 32
    assert params.parse(raw).fidelity.tokens == 1024


def test_a_bad_workload_name_is_refused() -> None:
    [problem] = problems(put(SHIPPED["benchmark"]["workloads"]["instruction"], "benchmark", "workloads", "a.b"))
    assert problem.startswith("benchmark.workloads: 'a.b' is not a valid name")


@pytest.mark.parametrize("name", ["8", "int4-gptq", "0-a-", "x"])
def test_good_names_pass(name: str) -> None:
    raw = copy.deepcopy(SHIPPED)
    raw["variants"][name] = raw["variants"]["fp16"]
    assert name in params.parse(raw).variants


def test_a_name_that_yaml_reads_as_a_number_is_refused() -> None:
    raw = copy.deepcopy(SHIPPED)
    raw["variants"][8] = raw["variants"]["fp16"]
    with pytest.raises(UserError, match=r"variants\.8: input should be a valid string"):
        params.parse(raw)


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
            ("decision", "prefer"),
            ["qualty"],
            "decision.prefer: no metric 'qualty' that has a better direction; did you mean 'quality'?",
        ),
    ],
)
def test_a_name_that_points_nowhere_gets_the_nearest_one(path: tuple[str, ...], value: Any, problem: str) -> None:
    assert problems(put(value, *path)) == [problem]


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


@pytest.mark.parametrize("bounds", [{}, {"at_least": 0.1, "at_most": 0.2}, {"at_least": None}])
def test_a_gate_needs_exactly_one_bound(bounds: dict[str, float | None]) -> None:
    found = problems(put({"metric": "quality"} | bounds, "gates", "floor"))
    assert found == ["gates.floor: give exactly one of at_least and at_most"]


@pytest.mark.parametrize("bound", [0, 0.0, 1, -0.08])
def test_a_bound_of_zero_or_a_whole_number_is_a_bound(bound: float) -> None:
    raw = copy.deepcopy(SHIPPED)
    raw["gates"]["floor"] = {"metric": "quality", "at_least": bound}
    assert params.parse(raw).gates["floor"].at_least == bound


@pytest.mark.parametrize("raw", [None, [], "text", 3])
def test_a_file_that_is_no_mapping_is_refused(raw: Any) -> None:
    with pytest.raises(UserError, match=r"params\.yaml: expected a mapping of settings, got"):
        params.parse(raw)


def test_load_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(SHIPPED | {"baseline": "x"}))
    with pytest.raises(UserError) as caught:
        params.load(path)
    assert caught.value.problems == (f"{path}: baseline: no variant 'x'; allowed: fp16, int4-awq, int4-gptq, int8",)


def test_an_empty_source_is_refused() -> None:
    assert problems(put({}, "model", "source"))


def test_a_number_as_name_does_not_hide_the_other_mistakes() -> None:
    found = problems(lambda raw: raw["variants"].update({8: raw["variants"]["fp16"]}), put("int9", "baseline"))
    assert any(problem.startswith("baseline: no variant 'int9'") for problem in found)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("gates", "size", "at_most"), float("nan")),
        (("gates", "size", "at_most"), float("inf")),
        (("eval_sets", "support-desk", "weight"), float("inf")),
    ],
)
def test_a_number_that_is_not_finite_is_refused(path: tuple[str, ...], value: float) -> None:
    assert problems(put(value, *path))


def test_variants_and_eval_sets_whose_stage_names_collide_are_refused() -> None:
    fp16 = SHIPPED["variants"]["fp16"]
    sets = {"x-desk": {"weight": 1.0}, "desk": {"weight": 1.0}}
    assert problems(put({"fp16": fp16, "fp16-x": fp16}, "variants"), put(sets, "eval_sets")) == [
        "variants.fp16-x: with eval set 'desk' it has the same stage name as variant 'fp16' with 'x-desk'; rename one"
    ]


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
