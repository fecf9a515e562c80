from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from unit.workspace import CARD, ITEMS, calibration_set, document, eval_set, write_lines, write_yaml

from pipeline import checkpoint, named_files, params, preflight, store
from pipeline.errors import UserError
from pipeline.params import Params
from pipeline.probes import hardware
from pipeline.records import BaseModelInfo, Gpu

ROOT = Path(__file__).parents[2]
CALIBRATION = {"set": "plain", "samples": 2}
PARAMS: dict[str, Any] = {
    "model": {"name": "tiny", "licence": "Apache-2.0", "source": {"kind": "local", "path": "model"}},
    "runtime": {
        "device": "cpu",
        "compute_dtype": {"cpu": "bfloat16", "cuda": "float16"},
        "threads": 1,
        "cores": None,
        "waiting": "passive",
        "allocator": "default",
    },
    "seed": 0,
    "baseline": "fp16",
    "variants": {
        "fp16": {"quantizer": "fp16", "engine": "transformers"},
        "int8": {"quantizer": "bitsandbytes_int8", "engine": "transformers"},
        "int4": {
            "quantizer": "gptqmodel_gptq",
            "engine": "transformers",
            "settings": {"group_size": 64, "calibration": CALIBRATION},
        },
    },
    "benchmark": {
        "pairing": {
            "processes": 3,
            "half_width": 0.03,
            "budget_s": 0,
            "alternation": "auto",
            "load_timeout_s": 120,
            "request_timeout_s": 60,
            "workload_timeout_s": 60,
        },
        "workloads": {"short": {"text": "text.txt", "prompt_tokens": 8, "output_tokens": 4, "pairs": 5}},
        "sweep": {"workload": "short", "concurrency": [1, 2], "pairs": 1},
    },
    "serving": {"objective": {"ttft_s": 1.0, "tpot_s": 0.1}, "memory_gib": 1.0},
    "evaluate": {"batch_size": 2, "invariance_items": 0},
    "eval_sets": {"colours": {"weight": 1.0}},
    "judge": None,
    "fidelity": {"text": "corpus.txt", "tokens": 512, "window_tokens": 256},
    "gates": {},
    "decision": {"workload": "short", "prefer": ["weight_bytes"], "tie": 0.05},
}


@pytest.fixture
def project(tmp_path: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which nothing is wrong; the base model is not made yet."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_checkpoint, tmp_path / "model")
    (tmp_path / "text.txt").write_text("some words")
    (tmp_path / "corpus.txt").write_text("some other words")
    eval_set(tmp_path)
    calibration_set(tmp_path, [document(1), document(2)])
    write_yaml(tmp_path / "params.yaml", PARAMS)
    return tmp_path


def settings(variants: dict[str, Any] | None = None) -> Params:
    return params.parse(PARAMS | ({"variants": PARAMS["variants"] | variants} if variants else {}))


def complete(folder: Path, source: Path) -> None:
    """Make the folder a complete artifact with the source's files."""
    shutil.copytree(source, folder)
    checkpoint.write_manifest(
        folder,
        name="x",
        base=BaseModelInfo(name="x", source="x", revision="x", licence="x", provenance="x"),
        quantizer=None,
        settings={},
        packages={},
        format="safetensors",
        parameters=1,
        quantized_modules=[],
    )


def test_a_good_project_has_no_problems(project: Path) -> None:
    assert preflight.check() == settings()
    complete(store.BASE, project / "model")
    assert preflight.problems(settings()) == []


def test_mistakes_in_different_files_come_at_once(project: Path) -> None:
    shutil.rmtree(project / "model")
    (project / "text.txt").unlink()
    eval_set(project, [{"id": "a"}])
    calibration_set(project, [document(1), document(1)])
    with pytest.raises(UserError) as caught:
        preflight.check()
    places = [problem.split(": ")[0] for problem in caught.value.problems]
    assert places == [
        "model.source.path",
        *["eval_sets/colours/items.jsonl:1"] * 2,
        "calibration/plain/samples.jsonl:2",
        "benchmark.workloads.short.text",
    ]


@pytest.mark.usefixtures("project")
def test_sets_that_are_not_there_are_told() -> None:
    changed = PARAMS | {"eval_sets": {"colors": {"weight": 1.0}}}
    changed["variants"] = PARAMS["variants"] | {
        "int4": PARAMS["variants"]["int4"] | {"settings": {"calibration": CALIBRATION | {"set": "plane"}}}
    }
    assert preflight.problems(params.parse(changed)) == [
        "eval_sets/colors: no such eval set (there are: colours)",
        "calibration/plane: no such calibration set (there are: plain)",
    ]


def found_by_check() -> list[str]:
    with pytest.raises(UserError) as caught:
        preflight.check()
    return list(caught.value.problems)


def test_a_mistake_in_params_hides_none_in_what_they_name(project: Path) -> None:
    shutil.rmtree(project / "model")
    eval_set(project, [ITEMS[0], ITEMS[1] | {"prompt": "a b c d e f g h"}])
    calibration_set(project, [{"id": "s", "kind": "document", "text": "x a b c d e f g h y"}])
    (project / "corpus.txt").unlink()
    workloads = {"short": PARAMS["benchmark"]["workloads"]["short"] | {"text": "none.txt", "pairs": 0}}
    changed = {
        "baselin": "fp16",
        "eval_sets": {"colours": {"weight": 0}, "colors": {}},
        "benchmark": PARAMS["benchmark"] | {"workloads": workloads},
        "runtime": PARAMS["runtime"] | {"cores": [9999]},
    }
    write_yaml(project / "params.yaml", PARAMS | changed)
    assert [problem.removeprefix("params.yaml: ").split(": ")[0] for problem in found_by_check()] == [
        "benchmark.workloads.short.pairs",
        "eval_sets.colours.weight",
        "baselin",
        "model.source.path",
        "eval_sets/colors",
        "benchmark.workloads.short.text",
        "variants.int4.settings.calibration.samples",
        "eval set colours, item name-1",
        "fidelity.text",
        "runtime.cores",
    ]


@pytest.mark.parametrize("section", ["model", "judge", "runtime", "variants", "eval_sets", "benchmark", "fidelity"])
@pytest.mark.parametrize("value", [None, 3, [], {}, {"x": None}, {"x": {"settings": {"calibration": 3}, "text": 3}}])
@pytest.mark.usefixtures("project")
def test_a_section_of_any_kind_is_told_without_a_crash(section: str, value: Any) -> None:
    write_yaml(store.PARAMS, PARAMS | {section: value})
    if (section, value) != ("judge", None):
        assert found_by_check()[0].startswith(f"params.yaml: {section}")


@pytest.mark.parametrize(("content", "given"), [("", "nothing"), ("- 1", "[1]")])
def test_params_that_are_no_settings_are_told_alone(project: Path, content: str, given: str) -> None:
    store.PARAMS.write_text(content)
    assert found_by_check() == [f"params.yaml: must be settings by name, as in `name: value`, got {given}"]


def test_one_faulty_set_hides_nothing_between_the_others(project: Path) -> None:
    """Not what an eval set shares with the calibration set, nor what the fidelity text does."""
    shared = "a b c d e f g h"
    calibration_set(project, [document(1), {"id": "s", "kind": "document", "text": shared}])
    eval_set(project, [ITEMS[1] | {"prompt": shared}])
    (project / "corpus.txt").write_text(shared)
    raw = PARAMS | {"eval_sets": {"colors": {}, "colours": {}}}
    assert [problem.split(": ")[0] for problem in preflight.problems(params.parse(raw))] == [
        "eval_sets/colors",
        "eval set colours, item name-1",
        "fidelity.text",
    ]


def test_words_that_an_eval_item_shares_with_the_calibration_set_are_told(project: Path) -> None:
    calibration_set(project, [document(1), {"id": "s", "kind": "document", "text": "x a b c d e f g h y"}])
    eval_set(project, [ITEMS[0], ITEMS[1] | {"prompt": "Q: A  b c\nd e f g H yes"}])
    [problem] = preflight.problems(settings())
    assert problem.startswith("eval set colours, item name-1: 'a b c d e f g h' (8 words in a row")


def test_the_shipped_project_has_no_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shipped = params.load()
    assert preflight.source_problems(shipped.model) == []
    assert list(named_files.problems(named_files.named(shipped.model_dump()))) == []


def test_more_calibration_samples_than_there_are_is_a_problem(project: Path) -> None:
    wanted = {"group_size": 64, "calibration": CALIBRATION | {"samples": 3}}
    assert preflight.problems(settings({"int4": PARAMS["variants"]["int4"] | {"settings": wanted}})) == [
        "variants.int4.settings.calibration.samples: 3 asked for, but set plain has 2"
    ]


def test_a_workload_over_the_context_is_a_problem(project: Path) -> None:
    long = {"long": {"text": "text.txt", "prompt_tokens": 1021, "output_tokens": 4, "pairs": 5}}
    assert preflight.problems(
        params.parse(
            PARAMS | {"benchmark": PARAMS["benchmark"] | {"workloads": long | PARAMS["benchmark"]["workloads"]}}
        )
    ) == ["benchmark.workloads.long: 1021 prompt and 4 output tokens exceed the model's context of 1024"]


def with_fidelity(**changes: Any) -> Params:
    return params.parse(PARAMS | {"fidelity": PARAMS["fidelity"] | changes})


def test_a_window_over_the_context_is_a_problem(project: Path) -> None:
    complete(store.BASE, project / "model")
    assert preflight.problems(with_fidelity(tokens=4096, window_tokens=1024)) == []
    assert preflight.problems(with_fidelity(tokens=4096, window_tokens=1025)) == [
        "fidelity.window_tokens: 1025 exceeds the model's context of 1024"
    ]


def test_a_fidelity_text_that_cannot_be_read_is_a_problem(project: Path) -> None:
    assert preflight.problems(with_fidelity(text="elsewhere.txt")) == ["fidelity.text: no file elsewhere.txt"]
    (project / "corpus.txt").write_bytes(b"caf\xe9 noir")
    assert preflight.problems(settings()) == [
        "fidelity.text: corpus.txt is not UTF-8 (invalid continuation byte at byte 3); save it as UTF-8"
    ]


def test_a_fidelity_text_that_calibration_has_seen_is_a_problem(project: Path) -> None:
    calibration_set(project, [document(1), {"id": "s", "kind": "document", "text": "x a b c d e f g h y"}])
    (project / "corpus.txt").write_text("So: A b c d\ne f g, and no further.")
    assert preflight.problems(settings()) == []
    (project / "corpus.txt").write_text("So: A b c d\ne f g H!")
    assert preflight.problems(settings()) == [
        "fidelity.text: 'a b c d e f g h' stands both in corpus.txt and in calibration set plain, which would flatter "
        "what was calibrated on it; change one of them"
    ]


def test_cuda_without_a_gpu_is_a_problem(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = params.parse(PARAMS | {"runtime": PARAMS["runtime"] | {"device": "cuda"}})
    monkeypatch.setattr(hardware, "gpus", lambda: ([], "no driver"))
    assert preflight.problems(wanted) == [
        "runtime.device: cuda, but there is no GPU here (no driver); set it to auto or cpu"
    ]
    monkeypatch.setattr(hardware, "gpus", lambda: ([Gpu(name="G", memory_bytes=1, driver="1")], None))
    assert preflight.problems(wanted) == []


def test_cores_that_are_not_there_are_a_problem(project: Path) -> None:
    here = sorted(os.sched_getaffinity(0))
    assert preflight.problems(with_cores([*here[:1], 9999])) == [
        f"runtime.cores: [{here[0]}, 9999] must be some of the cores that this process may use: {here}"
    ]
    assert preflight.problems(with_cores(here)) == []


def with_cores(cores: list[int]) -> Params:
    return params.parse(PARAMS | {"runtime": PARAMS["runtime"] | {"cores": cores}})


def test_layers_of_a_model_from_elsewhere_are_checked_once_the_base_is_there(project: Path) -> None:
    wanted = params.parse(
        PARAMS
        | {"model": PARAMS["model"] | {"source": {"kind": "hub", "id": "a/b", "revision": "0" * 40}}}
        | {
            "variants": PARAMS["variants"]
            | {"int8": PARAMS["variants"]["int8"] | {"settings": {"skip_modules": ["x"]}}}
        }
    )
    assert preflight.problems(wanted) == []
    complete(store.BASE, project / "model")
    assert preflight.problems(wanted)[0].startswith("variants.int8.settings.skip_modules: no module 'x'")


def test_layers_of_a_local_model_are_checked_before_anything_is_made(project: Path) -> None:
    bad = {
        "int4": PARAMS["variants"]["int4"] | {"settings": {"group_size": 512, "calibration": CALIBRATION}},
        "int8": PARAMS["variants"]["int8"] | {"settings": {"skip_modules": ["lm_haed"]}},
    }
    first, second = preflight.problems(settings(bad))
    assert first.startswith("variants.int8.settings.skip_modules: no module 'lm_haed'")
    assert second.startswith("variants.int4.settings.group_size 512 does not divide every layer: ")
    assert second.endswith("Sizes that would do: -1, 16, 32, 64, 128")


JUDGED = {"scorer": "judge", "max_new_tokens": 8, "description": "a free answer"}
JUDGE = {"base_url": "http://localhost:1/v1", "model": "m", "api_key_env": "MY_JUDGE_KEY"}


def judged(project: Path) -> None:
    """Make the project's eval set one with a category that needs a judge."""
    items = [*ITEMS, {"id": "free-1", "category": "free", "prompt": "Why?", "target": {"rubric": "Says why."}}]
    eval_set(project, items, categories=CARD["categories"] | {"free": JUDGED})


def test_a_category_for_a_judge_needs_one_in_params(project: Path) -> None:
    judged(project)
    assert preflight.problems(settings()) == [
        "eval set colours, category free: answers are scored by a language model, but `judge` in params.yaml is null; "
        "describe one there (at least base_url and model), or take the set out of eval_sets"
    ]


def test_a_judge_needs_its_key_and_good_labels_where_it_is_used(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_JUDGE_KEY", raising=False)
    wanted = params.parse(PARAMS | {"judge": JUDGE})
    write_lines(project / "eval_sets" / "colours" / "labels.jsonl", [{"prompt": "p", "output": "o", "rubric": "r"}])
    assert preflight.problems(wanted) == []
    judged(project)
    assert preflight.problems(wanted) == [
        "eval_sets/colours/labels.jsonl:1: passed: missing",
        "judge.api_key_env: there is no environment variable MY_JUDGE_KEY; export it, or set it to null",
    ]
    (project / "eval_sets" / "colours" / "labels.jsonl").unlink()
    monkeypatch.setenv("MY_JUDGE_KEY", "secret")
    assert preflight.problems(wanted) == []


def with_free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=free, used=0, free=free))


def test_the_missing_artifacts_and_their_cache_must_fit_on_the_disk(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_free(monkeypatch, 0)
    assert preflight.disk_problems(settings()) == []  # the size is not known yet
    complete(store.BASE, project / "model")
    base_bytes = checkpoint.read_manifest(store.BASE).weight_bytes
    # Three artifacts, each twice (folder and cache), with a fifth more as margin.
    needed = int(3 * 2 * base_bytes * 1.2)
    with_free(monkeypatch, needed)
    assert preflight.disk_problems(settings()) == []
    with_free(monkeypatch, needed - 1)
    [problem] = preflight.disk_problems(settings())
    assert problem.startswith("disk: 3 artifacts and the DVC cache may need 0.0 GiB, but only 0.0 GiB are free")


def test_artifacts_that_are_there_need_no_room(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(store.BASE, project / "model")
    for name in ("fp16", "int8"):
        complete(store.artifact(name), project / "model")
    with_free(monkeypatch, 0)
    [problem] = preflight.disk_problems(settings())
    assert problem.startswith("disk: 1 artifact and the DVC cache may need")
    complete(store.artifact("int4"), project / "model")
    assert preflight.disk_problems(settings()) == []
