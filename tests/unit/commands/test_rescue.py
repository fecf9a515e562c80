from __future__ import annotations

import sys
from typing import Any

import pytest
import yaml
from unit.conftest import Project
from unit.metrics.test_keeping import group
from unit.test_rescue import DOWN, MIB, manifest, proposal

from pipeline import cli, params, records, rescue, store
from pipeline.commands import rescue as commands_rescue
from pipeline.quality_records import FidelityText

SCORES = [1.0] * 72 + [0.0] * 48


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit code of the command as a shell sees it."""
    monkeypatch.setattr(sys, "argv", ["quantgate", "rescue", *arguments])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)


@pytest.fixture
def calls(project: Project, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A project whose int4 is undecided on quality; what is asked of the worker and of DVC."""
    build = project.build
    project.raw["variants"]["fp16"] = {"quantizer": "rtn", "engine": "transformers"}
    lost = build.evidence("int4", [0.0] * 12 + SCORES[12:], weight_bytes=90 * MIB)
    project.write(build.evidence("fp16", SCORES), lost, build.evidence("good", SCORES, weight_bytes=90 * MIB))
    for folder, size in ((store.BASE, 256), (store.artifact("fp16"), 256), (store.artifact("int4"), 64)):
        manifest(folder, size)
    manifest(store.artifact("good"))
    text = FidelityText(
        tokenizer_sha256="a" * 64, text="t", tokens=4, window_tokens=4, windows=[[1, 2]], text_sha256="a" * 64
    )
    records.save(store.FIDELITY_PROMPT, text)
    groups = [group(DOWN[0], 0.25, 48), group(DOWN[1], 0.0625, 48)]
    asked: list[Any] = []

    def propose(settings: params.Params, variant: str, budget: int, tokens: int) -> Any:
        asked.append((variant, budget, tokens))
        return proposal(groups[:1], groups, budget)

    monkeypatch.setattr(rescue, "propose", propose)
    monkeypatch.setattr(rescue, "reproduce", lambda: asked.append("dvc repro") or 0)
    return asked


def test_without_apply_it_tells_the_layers_the_entry_and_the_size_and_writes_nothing(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = store.PARAMS.read_text()
    assert run(monkeypatch, "int4", "--max-size-ratio", "0.9") == 0
    told = capsys.readouterr()
    assert told.err == ""
    sizes = [
        sum(path.stat().st_size for path in store.artifact(name).glob("*.safetensors")) for name in ("int4", "fp16")
    ]
    assert calls == [("int4", int(0.9 * sizes[1] - sizes[0]), 512)]
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in told.out.splitlines() if line.startswith("│")]
    assert rows == [[DOWN[0], "0.25", "0.00", "yes"], [DOWN[1], "0.0625", "0.00", ""]]
    assert "kept in 16 bits: 1 modules in 1 of 2 parts" in told.out
    assert f"({sizes[0] / sizes[1]:.2f} → {(sizes[0] + 48) / sizes[1]:.2f} × fp16's)" in told.out
    assert "KLD: 0.3 nats as it runs now; 0.3 → 0.1 when the other parts stay as they are" in told.out
    shown = yaml.safe_load(told.out[told.out.index("variants:\n") : told.out.index("with --apply")])
    assert shown == {
        "variants": {
            "int4-rescued": {
                "quantizer": "rtn",
                "engine": "transformers",
                "settings": {"skip_modules": [DOWN[0]]},
            }
        }
    }
    assert store.PARAMS.read_text() == before


def test_with_apply_the_variant_is_written_made_and_placed(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], project: Project
) -> None:
    def reproduce() -> int:
        calls.append(list(params.load().variants))
        build = project.build
        better = build.evidence("int4-rescued", SCORES, weight_bytes=100 * MIB, tpot_s=0.04, peak_bytes=600 * MIB)
        project.write(build.evidence("fp16", SCORES), better)
        return 0

    monkeypatch.setattr(rescue, "reproduce", reproduce)
    assert run(monkeypatch, "int4", "--apply", "--extra-mib", "2") == 0
    assert calls == [("int4", 2 * MIB, 512), ["fp16", "int4", "int4-rescued", "good"]]
    *_, wrote, placed, why, headline = capsys.readouterr().out.splitlines()
    assert wrote == "params.yaml: wrote variant int4-rescued"
    assert placed == "int4-rescued: PASS, on the frontier"
    assert why.startswith("  of those that pass every gate")
    assert headline.startswith("Ship int4-rescued")


def test_a_variant_that_another_beats_is_said_to_be_dominated(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = project.write(
        project.build.evidence("fp16", SCORES),
        project.build.evidence("slow", [0.0] * 3 + SCORES[3:], tpot_s=0.2, peak_bytes=2000 * MIB),
    )
    monkeypatch.setattr(params, "load", lambda: settings)
    first, why, _ = commands_rescue.place("slow")
    assert first.endswith(", dominated by fp16")
    assert why.startswith("  ")


def test_the_code_of_a_failed_run_is_passed_on(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescue, "reproduce", lambda: 9)
    assert run(monkeypatch, "int4", "--apply") == 9


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        ("int5", "no variant 'int5' in params.yaml; did you mean 'int4'?"),
        ("fp16", "fp16 is the baseline, to which the others are compared; name one of those"),
        ("good", "good passes every gate; there is nothing to rescue"),
    ],
)
def test_what_cannot_be_rescued_is_a_users_mistake(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variant: str, words: str
) -> None:
    assert run(monkeypatch, variant) == cli.USER_ERROR
    assert capsys.readouterr().err == f"error: {words}\n"
    assert calls == []


def test_records_of_an_older_eval_set_are_not_judged(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with (store.EVAL_SETS / "support-desk" / "items.jsonl").open("a") as items:
        items.write('{"id": "b"}\n')
    assert run(monkeypatch, "int4") == cli.USER_ERROR
    assert capsys.readouterr().err == "error: the report is older than eval set support-desk; run `dvc repro`\n"
    assert calls == []
