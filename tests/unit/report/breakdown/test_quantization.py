"""What making each artifact took, as a reader of the report finds it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline.artifact_records import Attempt, CalibrationUse
from pipeline.records import known
from pipeline.report import html
from pipeline.report.analysis import analyse
from pipeline.report.breakdown import quantization

MIB = 2**20
USE = CalibrationUse(
    set_name="general",
    set_version="1.2",
    sha256="abcdef123456" + "0" * 52,
    samples_total=40,
    samples_kept=16,
    samples_dropped=24,
    tokens=6528,
)
DOWN = [f"model.layers.{n}.mlp.down_proj" for n in range(2)]
UP = [f"model.layers.{n}.mlp.up_proj" for n in range(2)]


@pytest.fixture
def made(build):
    def make(variant: str = "int4-gptq", **changes: Any):
        fields = {
            "calibration": USE,
            "quantized_modules": UP,
            "unquantized_modules": ["lm_head", *DOWN],
            "bits_per_weight": 5.25,
            "wall_s": 143.26,
            "peak_process_bytes": known(1300 * MIB),
            "peak_gpu_bytes": known(2560 * MIB),
            "toolchain": "old@0123456789ab",
        }
        return replace(build.evidence(variant), quantize=build.quantize(variant, **(fields | changes)))

    return make


def test_every_figure_stands_in_the_table(gathered, build, made):
    _, found = gathered(build.evidence("fp16"), made())
    lines = {line.label: [cell.text for cell in line.cells] for line in quantization.lines(found)}
    assert lines == {
        "Bits per weight, as stored": ["16.00", "5.25"],
        "Linear layers quantized": ["0 of 0", "2 of 5"],
        "Calibration set": ["–", "general 1.2"],
        "Calibration tokens": ["–", "6,528"],
        "Calibration hash": ["–", "abcdef123456"],
        "Time": ["12.0 s", "143.3 s"],
        "Peak memory of the process": ["500 MiB", "1.27 GiB"],
        "Peak memory of the GPU": ["–", "2.50 GiB"],
        "Toolchain": ["main", "old@0123456789ab"],
    }


def test_what_is_missing_says_why(gathered, build):
    _, [_, failed] = gathered(build.evidence("fp16"), build.failed("int4-gptq", "the process ran out of memory"))
    for line in quantization.lines([failed]):
        assert (line.cells[0].text, line.cells[0].reason) == ("–", "the process ran out of memory")
    assert list(quantization.notes([failed])) == []


def test_layers_left_as_they_were_are_named_by_kind(made):
    evidence = made(attempts=[], at_load=None)
    assert list(quantization.notes([evidence])) == [("int4-gptq", "left unquantized: down_proj × 2, lm_head")]


def test_failed_tries_and_quantizing_at_load_are_told(made):
    tries = [
        *(Attempt(settings={"module": "x", "damp_percent": d / 100}, failure="not definite") for d in range(5, 9)),
        Attempt(settings={"module": "x", "damp_percent": 0.09}, failure=None),
    ]
    evidence = made(unquantized_modules=[], attempts=tries, at_load="saving breaks it")
    assert list(quantization.notes([evidence])) == [
        (
            "int4-gptq",
            "4 tries failed (module x, damp_percent 0.05: not definite; module x, damp_percent 0.06: not definite; "
            "module x, damp_percent 0.07: not definite; and 1 more)",
        ),
        ("int4-gptq", "stored unquantized and quantized each time it is loaded: saving breaks it"),
    ]


def test_the_page_shows_it(project, build, made):
    page = html.render(analyse(project.write(build.evidence("fp16"), made())))
    assert "abcdef123456" in page
    assert "left unquantized: down_proj × 2, lm_head" in page
    assert 'id="quantization"' in page
