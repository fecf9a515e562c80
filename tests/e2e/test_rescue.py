"""A variant that GPTQModel made and a hand made worse: the worst layer is found, kept in 16 bits, and all is well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from unit.runs.artifacts import Tensors, change
from unit.runs.conftest import made, project  # noqa: F401 - fixtures
from unit.runs.jobs import quantize_job
from unit.runs.test_sensitivity import UP, UP_PART, job, modules

from pipeline import checkpoint, rescue, store
from pipeline.quantizers import _gptqmodel
from pipeline.sensitivity_records import Proposal

pytestmark = pytest.mark.e2e
RTN = {"bits": 4, "group_size": 64}


def work(run: str, wanted: BaseModel) -> dict[str, Any]:
    """The record that a worker process makes."""
    store.write_text(Path("job.json"), wanted.model_dump_json())
    environment = {
        **os.environ,
        **_gptqmodel.ENVIRONMENT,
        "PYTHONPATH": str(Path(store.__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pipeline.worker", run, "job.json", "result.json"]
    subprocess.run(command, env=environment, check=True)
    return dict(store.read_json(Path("result.json"))["record"])


def quantized(variant: str, settings: dict[str, Any]) -> Path:
    folder = store.artifact(variant)
    folder.mkdir()
    assert work("quantize", quantize_job("rtn", **settings).model_copy(update={"variant": variant}))["status"] == "ok"
    return folder


@pytest.mark.usefixtures("project")
def test_the_worst_layer_is_found_and_keeping_it_wins_back_what_it_lost_for_the_bytes_that_were_told() -> None:
    def worse(tensors: Tensors) -> None:
        import torch

        torch.manual_seed(0)
        scales = tensors[f"{UP}.scales"]
        scales *= 1 + 10 * torch.randn(scales.shape)

    folder = quantized("int4", RTN)
    change(folder, worse)
    found = Proposal.model_validate(work("sensitivity", job(variant="int4", budget_bytes=100_000)))
    measured = found.sensitivity
    assert max(measured.groups, key=lambda group: group.kld).modules == UP_PART
    assert modules(found.kept) == [UP_PART]
    assert measured.kld == pytest.approx(found.kld_none_kept, rel=0.1), "what is swapped is what the engine runs"
    assert found.kld_kept < 0.2 * measured.kld

    raw = {"variants": {"int4": {"quantizer": "rtn", "engine": "transformers", "settings": RTN}}}
    after = quantized("int4-rescued", rescue.entry(raw, "int4", found)["settings"])
    assert checkpoint.read_manifest(after).unquantized_modules == UP_PART
    grown = checkpoint.read_manifest(after).weight_bytes - checkpoint.read_manifest(folder).weight_bytes
    [kept] = found.kept
    # The header of the file has fewer names.
    assert grown == pytest.approx(kept.extra_bytes, abs=2000)
    again = Proposal.model_validate(work("sensitivity", job(variant="int4-rescued"))).sensitivity
    assert again.kld == pytest.approx(found.kld_kept, rel=0.1)
    assert UP_PART not in modules(again.groups)
