"""The real DVC graph with the real quantizers on a tiny model. The tests build on one another, in file order."""

from __future__ import annotations

import copy
import csv
from pathlib import Path

import pytest
import tiny_project as projects
from tiny_project import Project

pytestmark = pytest.mark.e2e

REQUIRED_COLUMNS = [
    *("variant", "status", "reason", "engine", "quality", "quality_ci_low", "quality_ci_high", "quality_delta"),
    *("delta_ci_low", "delta_ci_high", "flips_lost", "flips_won", "decode_tokens_per_s"),
    *("speedup", "speedup_ci_low", "speedup_ci_high", "ttft_s_p50", "ttft_s_p95", "tpot_s_p50", "tpot_s_p95"),
    *("weight_bytes", "peak_memory_bytes", "cost_per_million_tokens", "frontier", "artifact_sha256"),
]

BROKEN_QUANTIZER = '''
"""Fails until a file named `mended` stands in the project."""

from pathlib import Path

from pipeline.quantizers.fp16 import ENVIRONMENT, FORMAT, PACKAGES, TOOLCHAIN, Settings, check
from pipeline.quantizers.fp16 import quantize as copy

def quantize(job):
    if not Path("mended").exists():
        raise RuntimeError("the planned failure")
    return copy(job)
'''

COLLAPSING_QUANTIZER = '''
"""Saves the last norm upside down, and does not notice."""

from pipeline.quantizers.fp16 import ENVIRONMENT, FORMAT, PACKAGES, TOOLCHAIN, Settings, check
from pipeline.quantizers.fp16 import quantize as copy

def quantize(job):
    from safetensors.torch import load_file, save_file

    done = copy(job)
    path = job.out / "model.safetensors"
    tensors = load_file(path)
    tensors["model.norm.weight"].neg_()
    save_file(tensors, path, {"format": "pt"})
    return done
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = projects.make(tmp_path_factory.mktemp("project"))
    made.run("quantgate", "check")
    made.repro()
    return made


def rows(project: Project) -> dict[str, dict[str, str]]:
    with (project.folder / "reports" / "pareto.csv").open() as stream:
        return {row["variant"]: row for row in csv.DictReader(stream)}


def stages_of(*variants: str) -> set[str]:
    per_variant = ("quantize@{}", "smoke@{}", "benchmark@{}", "evaluate@{}-colours", "fidelity@{}")
    return {name.format(variant) for variant in variants for name in per_variant} | {"report"}


def test_four_real_variants_come_out_measured_and_scored(project: Project) -> None:
    table = rows(project)
    assert list(table) == ["fp16", "int8", "int4-gptq", "int4-awq"]
    for row in table.values():
        assert row["status"] == "ok", row["reason"]
        assert 0 <= float(row["quality"]) <= 1
        assert float(row["decode_tokens_per_s"]) > 0
        assert float(row["peak_memory_bytes"]) > float(row["weight_bytes"]) > 0
    assert len({row["artifact_sha256"] for row in table.values()}) == 4
    assert list(table["fp16"])[: len(REQUIRED_COLUMNS)] == REQUIRED_COLUMNS


@pytest.mark.parametrize(
    ("variant", "kernel"),
    [("fp16", "Linear"), ("int8", "Linear8bitLt"), ("int4-gptq", "TorchAten"), ("int4-awq", "TorchAten")],
)
def test_each_variant_runs_on_the_kernel_of_its_format(project: Project, variant: str, kernel: str) -> None:
    kernels = project.report(f"speed/{variant}.json")["engine"]["kernels"]
    assert sum(kernels.values()) == 14, "2 layers of 7 linears each"
    assert all(name.startswith(kernel) for name in kernels)


@pytest.mark.parametrize("variant", ["int8", "int4-gptq", "int4-awq"])
def test_every_linear_of_the_decoder_is_quantized_and_the_tokenizer_is_the_base_s(
    project: Project, variant: str
) -> None:
    import json

    manifest, base = (
        json.loads((project.folder / "artifacts" / name / "manifest.json").read_text())
        for name in (f"variants/{variant}", "base")
    )
    assert len(manifest["quantized_modules"]) == 14
    assert manifest["tokenizer_sha256"] == base["tokenizer_sha256"]
    assert manifest["chat_template_sha256"] == base["chat_template_sha256"]
    assert manifest["bits_per_weight"] < base["bits_per_weight"]


def test_readings_are_as_many_and_as_long_as_pinned(project: Project) -> None:
    measured = project.report("speed/int8.json")["workloads"]
    assert [(w["workload"], w["concurrency"], len(w["pairs"])) for w in measured] == [
        ("short", 1, 6),
        ("short", 2, 3),
        ("long", 1, 3),
    ]
    for workload in measured:
        assert {pair["process"] for pair in workload["pairs"]} == {0, 1, 2}
        for pair in workload["pairs"]:
            assert len(pair["variant"]["token_s"]) == len(pair["baseline"]["token_s"]) == 4


def test_every_variant_s_speed_is_a_ratio_to_the_same_baseline_with_its_interval(project: Project) -> None:
    baseline = project.report("quantize/fp16.json")["artifact_sha256"]
    for variant, row in rows(project).items():
        record = project.report(f"speed/{variant}.json")
        assert record["baseline_artifact_sha256"] == baseline
        assert record["alternation"] == "resident"
        assert record["failures"] == []
        low, ratio, high = (float(row[f"speedup{end}"]) for end in ("_ci_low", "", "_ci_high"))
        assert (low, ratio, high) == (1, 1, 1) if variant == "fp16" else 0 < low < ratio < high


def test_every_variant_is_compared_with_the_baseline_at_the_same_tokens(project: Project) -> None:
    baseline = project.report("quantize/fp16.json")["artifact_sha256"]
    for variant, row in rows(project).items():
        record = project.report(f"fidelity/{variant}.json")
        assert record["baseline_artifact_sha256"] == baseline
        # 2816 tokens in 22 windows of 128, of which each leaves its first one out.
        assert [block["tokens"] for block in record["blocks"]] == 22 * [127]
        names = ("ppl_ratio", "ppl_ratio_ci_low", "ppl_ratio_ci_high", "kld_mean", "kld_max", "top1_agreement")
        same = [float(row[name]) for name in names]
        if variant == "fp16":
            assert same == [1, 1, 1, 0, 0, 1], "two loads of one artifact"
        else:
            assert 0 < float(row["kld_mean"]) < float(row["kld_p99"]) <= float(row["kld_max"])
            assert float(row["ppl_ratio_ci_low"]) < float(row["ppl_ratio"]) < float(row["ppl_ratio_ci_high"])


def test_reports_are_complete(project: Project) -> None:
    folder = project.folder / "reports"
    assert project.report("decision.json")["pick"] in rows(project)
    html = (folder / "report.html").read_text()
    assert all(variant in html for variant in rows(project))
    assert len((folder / "report.md").read_text().splitlines()) <= 80


def test_nothing_runs_when_nothing_changed(project: Project) -> None:
    assert project.repro() == set()


def test_metrics_have_a_row_per_variant_and_plots_are_drawn(project: Project) -> None:
    shown = project.run("dvc", "metrics", "show", "--md").stdout
    for variant in rows(project):
        assert f"metrics/{variant}.json" in shown
    project.run("dvc", "plots", "show", "--out", "plots")
    assert "vega" in (project.folder / "plots" / "index.html").read_text()


def test_telemetry_is_off(project: Project) -> None:
    assert project.run("dvc", "config", "core.analytics").stdout.strip() == "false"


def test_a_group_size_that_does_not_divide_is_refused_before_any_work(project: Project) -> None:
    params = project.params()
    wrong = copy.deepcopy(params)
    wrong["variants"]["int4-gptq"]["settings"]["group_size"] = 512
    project.write_params(wrong)
    done = project.run("quantgate", "check", check=False)
    project.write_params(params)
    assert done.returncode == 3
    assert "variants.int4-gptq.settings.group_size 512 does not divide" in done.stderr
    assert "model.layers.0" in done.stderr
    assert "128 input features" in done.stderr
    assert "Sizes that would do: -1, 16, 32, 64, 128" in done.stderr
    assert "Traceback" not in done.stderr


def test_editing_one_variant_s_params_runs_only_its_stages(project: Project) -> None:
    params = project.params()
    params["variants"]["int8"]["settings"] = {"outlier_threshold": 2.0}
    project.write_params(params)
    assert project.repro() == stages_of("int8")


def test_editing_one_quantizer_file_runs_only_its_variants(project: Project) -> None:
    path = project.folder / "pipeline" / "quantizers" / "bitsandbytes_int8.py"
    path.write_text(path.read_text() + "\n# edited\n")
    before = rows(project)["int8"]["artifact_sha256"]
    # The same settings give the same bytes, so that benchmark and evaluate have nothing to do.
    assert project.repro() == {"quantize@int8", "report"}
    assert rows(project)["int8"]["artifact_sha256"] == before


def test_a_failing_variant_is_a_row_and_the_others_go_on(project: Project) -> None:
    (project.folder / "pipeline" / "quantizers" / "broken.py").write_text(BROKEN_QUANTIZER)
    params = project.params()
    params["variants"]["broken"] = {"quantizer": "broken", "engine": "transformers"}
    project.write_params(params)
    assert project.repro() == stages_of("broken")
    row = rows(project)["broken"]
    assert row["status"] == "failed"
    assert "RuntimeError: the planned failure" in row["reason"]
    assert row["quality"] == row["decode_tokens_per_s"] == ""
    assert rows(project)["int4-awq"]["status"] == "ok"
    assert "the planned failure" in (project.folder / "reports" / "report.html").read_text()
    assert project.repro() == set(), "DVC takes the failed variant for done"


def test_every_variant_was_loaded_from_disk_and_found_sound(project: Project) -> None:
    for variant in ("fp16", "int8", "int4-gptq", "int4-awq"):
        record = project.report(f"smoke/{variant}.json")
        assert record["status"] == "ok", record["reason"]
        assert record["artifact_sha256"] == project.report(f"quantize/{variant}.json")["artifact_sha256"]
    [compared] = [check for check in project.report("smoke/fp16.json")["checks"] if check["name"] == "distributions"]
    assert compared["readings"]["kld_mean"]["value"] == 0
    assert compared["readings"]["top1_agreement"]["value"] == 1


def test_a_bound_that_changes_no_verdict_measures_nothing_anew(project: Project) -> None:
    params = project.params()
    params["smoke"]["kld_max"] = 4.9
    project.write_params(params)
    assert project.repro() == {*(f"smoke@{variant}" for variant in params["variants"]), "report"}


def test_retry_runs_what_failed_again(project: Project) -> None:
    Path(project.folder, "mended").touch()
    again = projects.ran(project.run("quantgate", "retry").stdout)
    assert again == stages_of("broken")
    assert rows(project)["broken"]["status"] == "ok"
    assert "nothing failed" in project.run("quantgate", "retry").stdout


def test_a_collapsed_variant_is_a_row_that_was_not_measured(project: Project) -> None:
    (project.folder / "pipeline" / "quantizers" / "collapsing.py").write_text(COLLAPSING_QUANTIZER)
    params = project.params()
    without = copy.deepcopy(params)
    params["variants"]["collapsing"] = {"quantizer": "collapsing", "engine": "transformers"}
    project.write_params(params)
    assert project.repro() == stages_of("collapsing")
    row = rows(project)["collapsing"]
    assert row["status"] == "invalid"
    assert row["reason"].startswith("smoke: collapsed: KLD ")
    assert row["quality"] == row["decode_tokens_per_s"] == ""
    assert project.report("speed/collapsing.json")["reason"].startswith("not run: the smoke gate stopped it: collapsed")
    project.write_params(without)
    project.repro()


def test_answers_are_refused_when_params_changed_since_the_run(project: Project) -> None:
    params = project.params()
    changed = copy.deepcopy(params)
    changed["seed"] = 1
    project.write_params(changed)
    done = project.run("quantgate", "gate", check=False)
    project.write_params(params)
    assert done.returncode == 3
    assert "changed since the reports were made (seed)" in done.stderr


def test_gate_and_recommend_answer_from_the_reports(project: Project) -> None:
    assert project.run("quantgate", "gate").returncode == 0
    assert project.report("decision.json")["pick"] in project.run("quantgate", "recommend").stdout
    impossible = project.run("quantgate", "recommend", "--min-decode-tps", "1e9").stdout
    assert "1,000,000,000" in impossible or "1000000000" in impossible


def test_a_model_replaced_in_place_is_noticed(project: Project) -> None:
    template = project.folder / "model" / "chat_template.jinja"
    template.write_text(template.read_text() + " ")
    project.run("dvc", "repro", "--single-item", "source")
    assert "reports/source.json" in project.run("dvc", "status", "base", check=False).stdout
