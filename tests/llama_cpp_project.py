"""Artifacts of the llama.cpp quantizer on a loud tiny model, and what a session in the toolchain says of them."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import toolchain_side
from tiny_project import ROOT
from unit.runs.jobs import base_job, quantize_job

from pipeline import records, store
from pipeline.artifact_records import Manifest, QuantizeRecord
from pipeline.runs import base


def loud(checkpoint_folder: Path) -> None:
    """Eightfold weights: fresh ones hardly look back, and whatever is wrong with attention would not show."""
    from safetensors.torch import load_file, save_file

    path = checkpoint_folder / "model.safetensors"
    tensors = load_file(path)
    save_file({n: t * 8 if "_proj.weight" in n else t for n, t in tensors.items()}, path, {"format": "pt"})


def project_of(model: Path, folder: Path) -> Path:
    """A project folder whose base is a loud copy of a model."""
    loud(Path(shutil.copytree(model, folder / "model")))
    with contextlib.chdir(folder):
        base.run(base_job())
    return folder


class Made:
    """An artifact and what its making told."""

    def __init__(self, python: Path, project: Path, answer: Mapping[str, Any], folder: Path) -> None:
        self._python = python
        self._project = project
        self.answer = answer
        self.folder = folder

    @property
    def record(self) -> QuantizeRecord:
        return QuantizeRecord.model_validate(self.answer["record"])

    @property
    def manifest(self) -> Manifest:
        return records.load(self.folder / store.MANIFEST, Manifest)

    def types(self) -> dict[str, str]:
        found: dict[str, str] = store.read_json(self.folder / "tensor_types.json")["tensors"]
        return found

    def ask(self, *calls: tuple[str, *tuple[Any, ...]], dtype: str = "float32") -> list[Any]:
        """What a session says to these calls of its methods, one after the other."""
        told = self.folder.parent / f"told-{self.folder.name}"
        told.mkdir(exist_ok=True)
        asked = told / "asked.json"
        wanted = [(name, arguments) for name, *arguments in calls]
        asked.write_text(
            json.dumps(
                {"artifact": str(self.folder), "dtype": dtype, "threads": 1, "calls": wanted},
                default=lambda question: {"prompt": question.prompt, "choices": question.choices},
            )
        )
        toolchain_side.run(self._python, self._project, ROOT / "tests" / "llama_cpp_side.py", asked, told)
        answers: list[Any] = store.read_json(told / "told.json")
        return [numpy.load(a) if isinstance(a, str) and a.endswith(".npy") else a for a in answers]


def make(python: Path, project: Path, **settings: Any) -> Made:
    """Quantize the project's base in a worker of the toolchain; the artifact is kept from the next one."""
    job, result = project / "job.json", project / "result.json"
    wanted = quantize_job("llama_cpp_gguf", **settings)
    artifact = project / store.artifact(wanted.variant)
    artifact.mkdir(parents=True)
    job.write_text(wanted.model_dump_json())
    toolchain_side.run(python, project, "-m", "pipeline.worker", "quantize", job, result)
    kept = artifact.rename(project / f"made-{len(list(project.glob('made-*')))}")
    return Made(python, project, store.read_json(result), kept)
