"""docs/quantizers.md against the settings there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline import plugins

PAGE = (Path(__file__).parents[3] / "docs" / "quantizers.md").read_text(encoding="utf-8")
NAMES = plugins.names("pipeline.quantizers")
SECTIONS = {name: text for name, text in re.findall(r"(?ms)^## (\w+)\n(.*?)(?=^## |\Z)", PAGE) if name in NAMES}


def named(section: str) -> set[str]:
    """What stands in the first column of its table."""
    rows = re.findall(r"(?m)^\| (`[^|]*) \|", section)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_there_are_sections() -> None:
    assert {"gptqmodel_gptq", "gptqmodel_awq", "bitsandbytes_int8", "fp16"} <= set(SECTIONS)


@pytest.mark.parametrize("quantizer", SECTIONS)
def test_a_section_names_all_settings_and_no_other(quantizer: str) -> None:
    fields = plugins.load("pipeline.quantizers", quantizer).Settings.model_fields
    assert named(SECTIONS[quantizer]) == set(fields)
