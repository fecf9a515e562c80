from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from pipeline import cli, params, preflight, store
from pipeline.errors import UserError
from pipeline.report.analysis import analyse
from pipeline.stages import report as stage

SCORES = [1.0] * 72 + [0.0] * 48


@pytest.fixture
def run(monkeypatch):
    """The command as `(exit code, output)`; plugins of the file's quantizers and engines are not looked at."""
    monkeypatch.setattr(params, "load", lambda: params.Params.model_validate(params.read_yaml(store.PARAMS)))
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli.app, list(arguments))
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.output

    return invoke


def test_recommend_names_the_pick_and_why_not_the_others(project, four_variants, run):
    project.write(*four_variants)
    code, text = run("recommend")
    assert code == 0
    assert text.splitlines()[0].startswith("Ship int4-gptq: 1.25× (1.22 to 1.29) the decode speed of fp16")
    assert "  int4-awq: failed: quantize: out of memory" in text.splitlines()


def test_recommend_says_by_what_it_ranks_and_what_other_profiles_would_ship(project, four_variants, run):
    project.write(*four_variants)
    lines = run("recommend")[1].splitlines()
    assert lines[-2].startswith("Ranked by profile chat: Decode speed vs baseline 100 %; scores within 5 %, or whose ")
    assert lines[-1] == "It would be int4-gptq under edge."
    edge = run("recommend", "--profile", "edge")[1].splitlines()
    assert edge[-2].startswith("Ranked by profile edge: Peak memory 50 %, Weights on disk 50 %; ")
    assert edge[-1] == "It would be int4-gptq under chat."
    with pytest.raises(UserError, match=r"no profile 'egde' in decision\.profiles; did you mean 'edge'\?"):
        run("recommend", "--profile", "egde")


def test_recommend_says_what_would_have_to_give(project, build, run):
    project.raw["gates"] = {"speed": {"metric": "decode_tokens_per_s", "at_least": 100}}
    project.write(build.evidence("fp16", SCORES), build.evidence("int8", SCORES))
    lines = run("recommend")[1].splitlines()
    assert lines[0].endswith(" fp16 would pass if speed were 20.0 instead of 100.")
    assert [line for line in lines[1:] if "would pass" in line] == [
        "int8 would pass if speed were 20.0 instead of 100."
    ]
    assert lines[-1].startswith("Ranked by")


def test_frontier_is_over_the_axes_asked_for(project, four_variants, run):
    project.write(*four_variants)
    assert run("frontier")[1].splitlines()[0] == (
        "Frontier over Quality (higher is better), Decode speed vs baseline (higher is better), "
        "Peak memory (lower is better)"
    )
    code, text = run("frontier", "--axes", "weight_bytes,speedup@instruction")
    assert code == 0
    assert text.splitlines()[:2] == [
        "Frontier over Weights on disk (lower is better), Decode speed vs baseline, instruction (higher is better)",
        "  int4-gptq: on it; Weights on disk 90 MiB, Decode speed vs baseline, instruction 1.25× (1.22 to 1.29)",
    ]
    with pytest.raises(UserError, match=r"--axes: 'qualty': no metric 'qualty'"):
        run("frontier", "--axes", "qualty")


def test_recommend_takes_more_gates(project, four_variants, run):
    project.write(*four_variants)
    code, text = run("recommend", "--max-memory-gib", "0.5", "--min-quality", "0.1", "--min-decode-tps", "1", "--json")
    found = json.loads(text)
    assert code == 0
    assert found["pick"] is None
    verdicts = {verdict["gate"]: verdict for verdict in found["variants"][0]["gates"]}
    assert verdicts["--max-memory-gib"]["verdict"] == "FAIL"
    assert verdicts["--max-memory-gib"]["bound"] == 2**29
    assert verdicts["--min-quality"]["verdict"] == verdicts["--min-decode-tps"]["verdict"] == "PASS"


@pytest.mark.parametrize("value", ["nan", "inf", "-1"])
@pytest.mark.parametrize("option", ["--max-memory-gib", "--min-decode-tps"])
def test_what_is_no_amount_is_refused(project, four_variants, run, option, value):
    project.write(*four_variants)
    with pytest.raises(UserError, match=rf"{option}: {value} is no amount; give a number of 0 or more"):
        run("recommend", option, value)


def test_show_prints_every_variant_and_what_is_missing(project, four_variants, run):
    project.write(*four_variants)
    code, text = run("show")
    assert code == 0
    for name in ("fp16", "int8", "int4-gptq", "int4-awq"):
        assert name in text
    assert "int4-awq failed: quantize: out of memory" in text
    assert "1.25× (1.22 to 1.29)" in text
    assert "…" not in text


def test_show_says_how_to_read_its_columns(project, four_variants, run):
    project.write(*four_variants)
    words = " ".join(run("show")[1].split())
    assert (
        "Decode speed vs baseline is paired: each variant was measured in alternation with fp16, so it is no quotient "
        "of two Decode tokens/s."
    ) in words
    assert "The frontier is over Quality, Decode speed vs baseline and Peak memory together" in words
    assert "Left out: Quality vs baseline, Decode tokens/s, TTFT P50, Weights on disk." in words
    assert "Ranked by profile chat: Decode speed vs baseline 100 %" in words
    assert "Score, chat" in words
    assert "0.25 (0.24 to 0.26)" in words


def test_show_puts_variants_side_by_side_on_a_narrow_terminal(project, four_variants, run, monkeypatch):
    project.write(*four_variants)
    monkeypatch.setenv("COLUMNS", "80")
    _, text = run("show")
    [header] = [line for line in text.splitlines() if "Variant" in line]
    assert all(name in header for name in ("fp16", "int8", "int4-gptq", "int4-awq"))
    assert "…" not in text


def test_gate_judges_the_recommended_variant(project, four_variants, run):
    project.write(*four_variants)
    code, text = run("gate")
    assert (code, text.splitlines()[-1]) == (0, "PASS: int4-gptq")
    assert "int4-awq: FAIL" in text


def test_gate_of_a_failed_variant_fails(project, four_variants, run):
    project.write(*four_variants)
    code, text = run("gate", "int4-awq")
    assert (code, text.splitlines()[-1]) == (1, "FAIL: int4-awq")


def test_gate_of_an_undecided_variant_says_so(project, build, run):
    project.write(build.evidence("fp16", SCORES), build.evidence("int4", [0.0] * 12 + SCORES[12:]))
    assert run("gate", "int4")[0] == 2


def test_gate_fails_when_nothing_passes(project, build, run):
    project.raw["gates"] = {"speed": {"metric": "decode_tokens_per_s", "at_least": 100}}
    project.write(build.evidence("fp16", SCORES))
    code, text = run("gate")
    assert (code, text.splitlines()[-1]) == (1, "FAIL: no variant passes every gate")


def test_gate_of_an_unknown_variant_suggests_the_nearest(project, four_variants, run):
    project.write(*four_variants)
    with pytest.raises(UserError, match=r"no variant 'int9' in params\.yaml; did you mean 'int8'"):
        run("gate", "int9")


def command(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The console script in a process of its own."""
    code = f"import sys; sys.argv = {['quantgate', *arguments]}; from pipeline.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])}
    return subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)


def test_a_users_mistake_is_printed_without_a_traceback(tmp_path):
    result = command("recommend", folder=tmp_path)
    assert result.returncode == 3
    assert result.stderr == "error: params.yaml: not found. Run this in the folder that holds it.\n"


def test_a_wrong_option_does_not_read_as_undecided(tmp_path):
    result = command("gate", "--wrong", folder=tmp_path)
    assert result.returncode == 3
    assert "No such option: --wrong" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "help_of"),
    [
        (("eval-set", "check", "--wrong"), "quantgate eval-set check"),
        (("eval-set", "chekc"), "quantgate eval-set"),
        (("gate", "--wrong"), "quantgate gate"),
        (("gat",), "quantgate"),
    ],
)
def test_a_wrong_call_names_the_help_of_its_command(monkeypatch, capsys, arguments, help_of):
    monkeypatch.setattr(sys, "argv", ["quantgate", *arguments])
    with pytest.raises(SystemExit):
        cli.main()
    told = capsys.readouterr().err
    assert told.endswith(f" See `{help_of} --help`.\n")
    assert "?." not in told


def test_the_same_mistake_many_times_is_told_a_few_times_and_counted(monkeypatch, capsys):
    def faulty(**_):
        raise UserError(f"items.jsonl:{line}: category 'x{line}' is not in card.yaml" for line in range(1, 201))

    monkeypatch.setattr(cli, "app", faulty)
    with pytest.raises(SystemExit):
        cli.main()
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 3
    assert told[2] == "error: items.jsonl:3: category 'x3' is not in card.yaml (and 197 more like this)"


def test_what_the_terminal_cannot_show_is_written_as_its_number(monkeypatch):
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="latin-1", newline="\n"))
    monkeypatch.setattr(cli, "app", lambda **_: typer.echo("−1.9 pp, 0.74×"))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert shown.getvalue() == b"\\u22121.9 pp, 0.74\xd7\n"


def test_check_counts_in_plain_words(monkeypatch, project, four_variants, run):
    settings = project.write(*four_variants)
    monkeypatch.setattr(preflight, "check", lambda: preflight.Checked(settings, ["disk: enough"]))
    monkeypatch.setattr(preflight, "model_in_reach", lambda _: False)
    later = "layer shapes are checked once the base model is there"
    assert run("check") == (0, f"note: disk: enough\nparams.yaml is good: 4 variants, 1 eval set; {later}\n")


def test_retry_does_not_take_what_never_ran_for_done(project, build, run):
    project.write(build.evidence("fp16"), build.evidence("int8"))
    assert run("retry") == (0, "nothing failed\n")
    store.speed_record("int8").unlink()
    assert run("retry", "fp16") == (0, "nothing failed\n")
    assert run("retry") == (0, "nothing failed; 1 record is still to be made: run `dvc repro`\n")


@pytest.mark.parametrize("command", ["show", "recommend", "gate", "frontier"])
def test_before_the_first_run_one_sentence_says_so(project, four_variants, run, command):
    project.write(*four_variants)
    shutil.rmtree(store.REPORTS)
    with pytest.raises(UserError) as told:
        run(command)
    assert told.value.problems == ("reports/ holds no record of any variant yet; run `dvc repro`",)


def test_help_is_fast():
    """Best of three, so that a busy machine does not fail it."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        result = command("--help")
        seconds.append(time.perf_counter() - start)
        assert result.returncode == 0
        assert "recommend" in result.stdout
    assert min(seconds) < 0.5


def older_set(project, four_variants):
    """A report whose eval set was changed after it was made."""
    project.write(*four_variants)
    with (store.EVAL_SETS / "support-desk" / "items.jsonl").open("a") as items:
        items.write('{"id": "b"}\n')


@pytest.mark.parametrize("arguments", [("gate",), ("gate", "fp16"), ("recommend",), ("recommend", "--json")])
def test_a_report_that_is_older_than_an_eval_set_neither_passes_nor_recommends(
    project, four_variants, monkeypatch, capsys, arguments
):
    older_set(project, four_variants)
    monkeypatch.setattr(params, "load", lambda: params.Params.model_validate(params.read_yaml(store.PARAMS)))
    monkeypatch.setattr(sys, "argv", ["quantgate", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == cli.USER_ERROR
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "error: the report is older than eval set support-desk; run `dvc repro`\n")


def test_show_warns_that_its_table_is_older_than_an_eval_set(project, four_variants, run, capsys):
    older_set(project, four_variants)
    code, text = run("show")
    assert code == 0
    assert text.startswith("warning: the report is older than eval set support-desk; run `dvc repro`\n")
    assert "int4-gptq" in text


def test_records_made_under_other_params_are_not_judged(project, four_variants, run):
    settings = project.write(*four_variants)
    stage.write(analyse(settings))
    assert run("recommend")[0] == 0
    raw = params.read_yaml(store.PARAMS)
    raw["runtime"]["threads"] = 1
    raw["variants"]["int8"] = {**raw["variants"]["int8"], "settings": {"outlier_threshold": 1.0}}
    store.PARAMS.write_text(yaml.safe_dump(raw))
    with pytest.raises(UserError, match=r"changed since the reports were made \(runtime, variants\.int8\)"):
        run("gate")


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("benchmark", "pairing", "budget_s"), 61, "benchmark.pairing"),
        (("benchmark", "sweep", "concurrency"), [1, 2], "benchmark.sweep"),
        (("benchmark", "workloads", "instruction", "concurrency"), 2, "benchmark.workloads"),
        (("benchmark", "workloads", "other"), None, "benchmark.workloads"),
        (("decision", "workload"), "other", "decision.workload"),
        (("baseline",), "int8", "baseline"),
    ],
)
def test_whatever_decides_the_measurement_asks_for_a_new_one(project, four_variants, run, path, value, named):
    workloads = project.raw["benchmark"]["workloads"]
    if value == "other":
        workloads["other"] = workloads["instruction"]
    settings = project.write(*four_variants)
    stage.write(analyse(settings))
    raw = params.read_yaml(store.PARAMS)
    inner = raw
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = workloads["instruction"] if value is None else value
    store.PARAMS.write_text(yaml.safe_dump(raw))
    with pytest.raises(UserError, match=rf"changed since the reports were made \({named}\)"):
        run("gate")


def test_gates_and_profiles_may_change_without_a_new_run(project, four_variants, run):
    settings = project.write(*four_variants)
    stage.write(analyse(settings))
    raw = params.read_yaml(store.PARAMS)
    raw["gates"] = {}
    raw["decision"]["profiles"]["chat"]["weights"] = {"weight_bytes": 1.0}
    raw["decision"]["frontier"] = ["weight_bytes"]
    raw["serving"]["memory_gib"] = 8.0
    raw["serving"]["price_per_hour"] = 3.5
    store.PARAMS.write_text(yaml.safe_dump(raw))
    assert run("recommend")[0] == 0


def test_gate_is_undecided_when_nothing_passes_and_something_is_undecided(project, build, run):
    project.raw["gates"] = {"p95": {"metric": "ttft_s_p95", "at_most": 10.0}}
    few = build.speed("fp16", [build.workload(pairs=build.pairs(build.request(), build.request(), each=5))])
    project.write(replace(build.evidence("fp16"), speed=few))
    code, text = run("gate")
    assert code == 2
    assert "UNDECIDED: no variant passes every gate" in text


@pytest.mark.parametrize("arguments", [("gate", "int8"), ("recommend",), ("frontier",)])
def test_a_reason_of_several_lines_is_told_in_one(project, build, run, arguments):
    project.write(build.evidence("fp16", SCORES), build.failed("int8", "out of\nmemory"))
    lines = run(*arguments)[1].splitlines()
    assert any("out of memory" in line for line in lines)
    assert not any(line.startswith("memory") for line in lines)
