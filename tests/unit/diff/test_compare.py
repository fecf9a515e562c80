from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline import cli, schemas, store
from pipeline.diff import render
from pipeline.errors import UserError

ROOT = Path(__file__).resolve().parents[3]
SCORES = [1.0] * 60 + [0.0] * 40
MIB = 2**20


def edit(path: Path, change):
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


@pytest.fixture
def two(reports, build):
    """int8 loses its place to int4, which is new; a gate and a setting changed, and one variant is gone."""
    fp16, gone = build.evidence("fp16", SCORES), build.evidence("old", SCORES)
    int8 = build.evidence("int8", SCORES, tpot_s=0.03, weight_bytes=100 * MIB)
    a = reports.keep("a", fp16, int8, gone)
    reports.project.raw["gates"]["quality-drop"]["at_least"] = -0.01
    reports.project.raw["gates"]["small"] = {"metric": "weight_bytes", "at_most": float(300 * MIB)}
    reports.project.raw["seed"] = 7
    del reports.project.raw["gates"]["memory"]
    worse = build.evidence("int8", [0.0] * 20 + SCORES[20:], tpot_s=0.025, weight_bytes=50 * MIB)
    b = reports.keep("b", fp16, worse, build.evidence("int4", SCORES, tpot_s=0.02))
    return a, b


def test_the_decision_and_the_variants(two, difference):
    found = difference(*two)
    assert (found.decision.changed, found.decision.a, found.decision.b) == (True, "int8", found.decision.b)
    assert found.decision.b != "int8"
    assert (found.variants_added, found.variants_removed) == (["int4"], ["old"])
    assert found.decision.headline_a != found.decision.headline_b
    assert (found.decision.profile_a, found.decision.profile_b) == ("chat", "chat")
    assert found.decision.profiles_a["chat"] == "int8"


def test_verdicts_that_changed_gates_that_came_and_went(two, difference):
    found = [each for each in difference(*two).verdicts if each.variant == "int8"]
    assert [(each.gate, each.a, each.b) for each in found] == [
        (None, "PASS", "FAIL"),
        ("quality-drop", "PASS", "FAIL"),
        ("small", None, "PASS"),
        ("memory", "PASS", None),
    ]
    drop = found[1]
    assert (drop.bound_a, drop.bound_b) == (-0.08, -0.01)
    assert "−20.0 pp" in drop.reason


def test_memory_artifacts_and_params(two, difference):
    found = difference(*two)
    weights = next(each for each in found.memory if (each.variant, each.metric) == ("int8", "weight_bytes"))
    assert (weights.a.value, weights.b.value) == (100 * MIB, 50 * MIB)
    assert {each.variant: each.same for each in found.artifacts} == {"fp16": True, "int8": True}
    keys = {each.key: (each.in_a, each.in_b, each.a, each.b) for each in found.params}
    assert keys["seed"] == (True, True, 0, 7)
    assert keys["gates.small.metric"] == (False, True, None, "weight_bytes")
    assert keys["variants.old.quantizer"][:2] == (True, False)
    assert "baseline" not in keys


def test_equal_reports_differ_in_nothing(reports, build, difference):
    a = reports.keep("a", build.evidence("fp16", SCORES), build.evidence("int8", SCORES))
    found = difference(a, a)
    assert not found.decision.changed
    assert (found.verdicts, found.params, found.notes) == ([], [], [])
    assert {each.delta.value for each in found.quality} == {0}
    assert all(each.a == each.b for each in found.memory)
    assert "no verdict changed" in render.headline(found)
    assert "Not measured anew: int8." in render.markdown(found)
    assert "After / before" not in render.markdown(found)


# --- older schemas ---------------------------------------------------------------------------------------------


def as_schema_1(folder: Path) -> None:
    """As the first release wrote it: no report.json, no intervals of speed-ups, fewer fields of items and decision."""
    (folder / "reports" / "report.json").unlink()
    edit(folder / "reports" / "decision.json", _first_decision)
    table = folder / "reports" / "pareto.csv"
    with table.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    kept = [name for name in rows[0] if not name.startswith("speedup_ci")]
    with table.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, kept, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for items in folder.glob("reports/quality/*/*.items.jsonl"):
        lines = [json.loads(line) for line in items.read_text().splitlines()]
        for line in lines:
            for field in ("cluster", "weight", "flaw", "choice_logprobs"):
                del line[field]
        items.write_text("".join(json.dumps(line | {"of_old": 1}) + "\n" for line in lines))


def _first_decision(found):
    for field in ("profile", "profiles", "weights", "axes", "would_have_to_give"):
        del found[field]
    found.update(schema_version=1, prefer=["quality"])


def test_an_older_report_is_compared_as_far_as_it_goes(two, difference):
    a, b = two
    as_schema_1(a)
    found = difference(a, b)
    assert found.a.schema_version == 1
    assert any("decision.json is of schema 1 in" in note for note in found.notes)
    whole = next(each for each in found.quality if (each.variant, each.eval_set) == ("int8", None))
    assert (whole.same, len(whole.lost)) == (100, 20)
    (line,) = [each for each in found.speed if each.variant == "int8"]
    assert line.change.value == pytest.approx(1.2)
    assert "no interval: the report of" in line.change.reason
    assert render.markdown(found)


def test_what_an_older_report_lacks_is_noted_and_the_rest_compared(two, difference):
    a, b = two
    (a / "params.yaml").unlink()
    items = a / "reports" / "quality" / "int8" / "support-desk.items.jsonl"
    items.write_text('{"id": "x", "value": 1}\n')
    (a / "reports" / "report.json").write_text('{"schema_version": 99}')
    (a / "reports" / "speed" / "int8.json").write_text("no json")
    found = difference(a, b)
    text = "\n".join(found.notes)
    assert "has no params.yaml beside the report" in text
    assert "reports/quality/int8/support-desk.items.jsonl is of another schema and is not compared" in text
    assert "reports/report.json is of another schema than 1" in text
    assert "reports/speed/int8.json cannot be read" in text
    assert found.params == []
    assert {each.variant for each in found.quality if each.same} == {"fp16"}


def test_a_decision_that_cannot_be_read_says_its_schema_and_how_to_make_it_anew(reports, build, difference):
    reports.commit("first", build.evidence("fp16"))
    edit(store.REPORTS / "decision.json", lambda found: found.update(schema_version=0, variants="none"))
    with pytest.raises(UserError, match=r"reports/decision.json is of schema 0, which cannot be compared.*Run `dvc r"):
        difference("HEAD", ".")


def test_a_decision_with_the_marks_of_a_merge_says_how_to_make_it_anew(reports, build, difference):
    reports.commit("first", build.evidence("fp16"))
    (store.REPORTS / "decision.json").write_text("{\n<<<<<<< HEAD\n")
    with pytest.raises(UserError, match=r"\.: reports/decision\.json cannot be read \(.*\)\. Run `dvc repro` there to"):
        difference("HEAD", ".")


def test_an_old_commit_says_how_to_make_its_report_anew(reports, build, difference):
    reports.make(build.evidence("fp16"))
    edit(store.REPORTS / "decision.json", lambda found: found.pop("variants"))
    reports.git("init", "-q")
    reports.git("add", ".")
    reports.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "old")
    with pytest.raises(UserError, match=r"Check out [0-9a-f]{12} into a folder of its own, run `dvc repro --single"):
        difference("HEAD", ".")


# --- what is printed -------------------------------------------------------------------------------------------


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, ["diff", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0
    return result.output


def test_json_fits_its_published_schema(two):
    import jsonschema

    found = json.loads(run(*two, "--json"))
    (path,) = [path for path, _ in schemas.files() if path.name.startswith("diff-")]
    jsonschema.Draft202012Validator(json.loads((ROOT / path).read_text())).validate(found)
    assert found["decision"]["changed"] is True


def test_markdown_has_every_part_and_escapes(two):
    text = run(*two, "--markdown")
    assert text.startswith("# ")
    assert "the recommendation changed from int8 to" in text.splitlines()[0]
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        f"## {name}" for name in ("Decision", "Gates", "Quality", "Speed", "Memory and artifacts", "Params")
    ]
    assert "| int8 | all | 100 | 0 / 0 / 0 | −20.0 pp (" in text
    assert "worse, on the same artifact" in text
    assert "| int8 | same | 100 MiB → 50 MiB (−50.0 %) |" in text
    assert "- Added: int4." in text
    assert "| int8 | instruction | 1.67× (1.62 to 1.71) | 2.00× (1.94 to 2.06) | 1.20× (" in text
    assert "| faster than before |" in text


def test_long_tables_are_cut_in_markdown_and_counted(two, difference):
    found = difference(*two)
    many = found.model_copy(update={"params": [found.params[0]] * 40})
    text = render.markdown(many)
    assert "16 more rows: `quantgate diff --json`." in text
    one_more = found.model_copy(update={"params": [found.params[0]] * 25})
    assert "1 more row: `quantgate diff --json`." in render.markdown(one_more)


def test_reports_without_a_common_variant_say_so(two, difference):
    nothing = {"speed_refused": [], "speed": [], "memory": [], "artifacts": []}
    parts = {part.title: part for part in render.parts(difference(*two).model_copy(update=nothing))}
    for title in ("Speed", "Memory and artifacts"):
        assert parts[title].notes == ("No variant is in both.",)
        assert parts[title].rows == ()


def test_the_terminal_shows_refusals_and_no_speed_table(two):
    a, b = two
    edit(b / store.ENVIRONMENT, lambda environment: environment.update(cpu="Another CPU"))
    text = run(a, b)
    assert "Not compared, since these differ:" in text
    assert "cpu: Some CPU → Another CPU" in text
    assert "After / before" not in text


def test_head_against_the_working_tree_is_the_default(reports, build):
    reports.commit("first", build.evidence("fp16", SCORES))
    reports.make(build.evidence("fp16", SCORES), build.evidence("int8", SCORES))
    text = run("--markdown")
    assert text.splitlines()[0].startswith("# HEAD (")
    assert "→ working tree" in text
    assert "- Added: int8." in text


def test_both_formats_at_once_are_a_mistake(two):
    with pytest.raises(UserError, match="--markdown and --json were both given"):
        run(*two, "--markdown", "--json")


@pytest.mark.parametrize("revision", ["no-such-revision", "HEAD~99999"])
def test_a_user_s_mistake_exits_with_3_and_no_traceback(reports, build, revision, monkeypatch, capsys):
    reports.commit("first", build.evidence("fp16"))
    monkeypatch.setattr("sys.argv", ["quantgate", "diff", revision])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 3
    error = capsys.readouterr().err
    assert error.startswith(f"error: {revision!r} is neither")
    assert "Traceback" not in error


def test_a_missing_report_json_is_noted_and_an_empty_table_refused(two, difference):
    a, b = two
    (b / "reports" / "report.json").unlink()
    said = "has no reports/report.json, so only the deciding workload's speed is compared"
    assert any(said in note for note in difference(a, b).notes)
    (b / "reports" / "pareto.csv").write_text("")
    with pytest.raises(UserError, match=r"reports/pareto\.csv cannot be read \(it has no variant\)"):
        difference(a, b)
