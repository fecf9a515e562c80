from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.changed_params import ROOT, SHIPPED, drop, problems, put

from pipeline import params
from pipeline.errors import UserError


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
        (("decision", "frontier"), "quality"),
        (("decision", "frontier"), []),
        (("decision", "profiles", "chat", "weights"), {}),
        (("decision", "profiles", "chat", "weights", "speedup"), 0),
        (("decision", "profiles", "chat", "weights", "speedup"), "2"),
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
        ("decision", "profile"),
        ("decision", "profiles"),
        ("decision", "frontier"),
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


JUDGE = {"base_url": "http://localhost:8000/v1", "model": "m"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"modle": "m"}, "judge.modle: unknown key; did you mean 'model'?"),
        ({"base_url": "localhost:8000"}, "judge.base_url: must match the pattern"),
        ({"model": ""}, "judge.model: must have 1 or more characters"),
        ({"timeout_s": 0}, "judge.timeout_s: must be more than 0"),
        ({"attempts": 0}, "judge.attempts: must be 1 or more"),
        ({"concurrency": 0}, "judge.concurrency: must be 1 or more"),
        ({"seed": "0"}, "judge.seed: must be a whole number"),
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


def test_a_name_that_yaml_reads_as_a_number_is_refused() -> None:
    raw = copy.deepcopy(SHIPPED)
    raw["variants"][8] = raw["variants"]["fp16"]
    with pytest.raises(UserError, match=r"variants\.8: must be a text in quotes, got 8"):
        params.parse(raw)


@pytest.mark.parametrize("raw", [None, [], "text", 3])
def test_a_file_that_is_no_mapping_is_refused(raw: Any) -> None:
    with pytest.raises(UserError, match=r"params\.yaml: must be settings by name, as in `name: value`, got"):
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
