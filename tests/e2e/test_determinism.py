"""Same seed, same inputs → same artifact, shown by making each twice in fresh processes; docs/quantizers.md says so.

Every quantizer of the main environment is run. Those of a toolchain take minutes and have tests of their own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from unit.runs.jobs import base_job, quantize_job
from unit.workspace import calibration_set, document

from pipeline import checkpoint, plugins, store
from pipeline.runs import base

pytestmark = pytest.mark.e2e
QUICK = {"calibration": {"set": "plain", "samples": 3, "max_tokens": 64}, "iters": 20, "window_tokens": 64}
"""Settings for the little text and time that there are, for the quantizers that have them."""
QUANTIZERS = [
    name for name in plugins.names("pipeline.quantizers") if plugins.load("pipeline.quantizers", name).TOOLCHAIN is None
]
TWICE = ("once", "again")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    made = tmp_path_factory.mktemp("project")
    shutil.copytree(tiny_checkpoint, made / "model")
    calibration_set(made, [document(number) for number in range(4)])
    with contextlib.chdir(made):
        base.run(base_job())
    return made


def settings(quantizer: str) -> dict[str, Any]:
    fields = plugins.load("pipeline.quantizers", quantizer).Settings.model_fields
    return {name: value for name, value in QUICK.items() if name in fields}


def start(folder: Path, quantizer: str, number: int) -> subprocess.Popen[str]:
    """A worker that makes the artifact `<TWICE[number]>`, with a hash seed of its own."""
    name = f"{quantizer.replace('_', '-')}-{TWICE[number]}"
    (folder / store.artifact(name)).mkdir(parents=True)
    job = quantize_job(quantizer, **settings(quantizer)).model_copy(update={"variant": name})
    (folder / f"{name}.json").write_text(job.model_dump_json())
    variables = {**os.environ, **plugins.load("pipeline.quantizers", quantizer).ENVIRONMENT}
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline.worker", "quantize", f"{name}.json", f"{name}.result.json"],
        cwd=folder,
        env={**variables, "PYTHONHASHSEED": str(number + 1), "PYTHONPATH": str(Path(store.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_an_artifact_made_twice_has_one_hash(folder: Path, quantizer: str) -> None:
    module = plugins.load("pipeline.quantizers", quantizer)
    absent = sorted(set(module.PACKAGES) - set(checkpoint.package_versions(module.PACKAGES)))
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")
    workers = [start(folder, quantizer, number) for number in range(2)]
    logs = [worker.communicate()[0] for worker in workers]
    results = [store.read_json(folder / f"{quantizer.replace('_', '-')}-{name}.result.json") for name in TWICE]
    failures = [str(result) for result in results if "record" not in result]
    if any("unsupported here" in failure for failure in failures):
        pytest.skip(failures[0])
    assert failures == [], logs[0][-2000:]
    first, second = (
        checkpoint.read_manifest(folder / store.artifact(f"{quantizer.replace('_', '-')}-{name}")) for name in TWICE
    )
    assert first.files == second.files
    assert first.artifact_sha256 == second.artifact_sha256
    assert first.model_copy(update={"name": second.name}) == second
