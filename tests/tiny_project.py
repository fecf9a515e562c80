"""A project folder with a tiny model, made from this repository's own graph, for tests that run DVC."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiny
import yaml

ROOT = Path(__file__).resolve().parents[1]
COPIED = (
    "pipeline",
    "calibration",
    "fidelity",
    "workloads",
    "dvc.yaml",
    ".dvcignore",
    ".dvc/config",
    ".dvc/.gitignore",
    ".dvc/plots",
)
CALIBRATION = {"set": "general", "samples": 4, "max_tokens": 64, "seed": 0}

PARAMS: dict[str, Any] = {
    "model": {
        "name": "tiny-llama",
        "licence": "Apache-2.0",
        "provenance": "random weights",
        "source": {"kind": "local", "path": "model"},
    },
    "runtime": {
        "device": "cpu",
        "compute_dtype": {"cpu": "bfloat16", "cuda": "float16"},
        "threads": 1,
        "cores": None,
        "waiting": "default",
        "allocator": "default",
    },
    "seed": 0,
    "baseline": "fp16",
    "variants": {
        "fp16": {"quantizer": "fp16", "engine": "transformers"},
        "int8": {"quantizer": "bitsandbytes_int8", "engine": "transformers"},
        "int4-gptq": {
            "quantizer": "gptqmodel_gptq",
            "engine": "transformers",
            "settings": {"group_size": 64, "calibration": CALIBRATION},
        },
        "int4-awq": {
            "quantizer": "gptqmodel_awq",
            "engine": "transformers",
            "settings": {"group_size": 64, "calibration": CALIBRATION},
        },
    },
    "benchmark": {
        "pairing": {
            "processes": 3,
            "half_width": 0.5,
            "budget_s": 0,
            "alternation": "auto",
            "load_timeout_s": 120,
            "request_timeout_s": 60,
            "workload_timeout_s": 60,
        },
        "workloads": {
            "short": {"text": "workloads/instruction.txt", "prompt_tokens": 8, "output_tokens": 4, "pairs": 2},
            "long": {"text": "workloads/instruction.txt", "prompt_tokens": 64, "output_tokens": 4, "pairs": 1},
        },
        "sweep": {"workload": "short", "concurrency": [1, 2], "pairs": 1},
    },
    "serving": {
        "objective": {"ttft_s": 1.0, "tpot_s": 0.5},
        "memory_gib": 1.0,
        "price_per_hour": 0.1,
        # Turns of a millisecond spread as they like on a busy machine, and no timing may decide a test.
        "max_spread": 1e6,
    },
    "evaluate": {"batch_size": 8, "invariance_items": 4},
    "eval_sets": {"colours": {"weight": 1.0}},
    "judge": None,
    "fidelity": {"text": "fidelity/general.txt", "tokens": 2816, "window_tokens": 128},
    "smoke": {"texts": 50, "tokens": 32, "prompts": 5, "kld_max": 5.0, "top1_min": 0.05},
    "gates": {"size": {"metric": "weight_bytes", "at_most": 1.0, "relative": True}},
    "decision": {
        "workload": "short",
        "profile": "edge",
        "profiles": {"edge": {"weights": {"weight_bytes": 1.0}}},
        "frontier": ["quality", "speedup", "peak_memory_bytes"],
    },
}

CARD = {
    "name": "colours",
    "version": "1.0.0",
    "language": "en",
    "licence": "Apache-2.0",
    "provenance": "made by the test",
    "description": "Which colour is it?",
    "categories": {"colour": {"scorer": "contains_any", "max_new_tokens": 4, "description": "names a colour"}},
}


@dataclass(frozen=True)
class Project:
    folder: Path

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in the project with this Python's environment first on the PATH."""
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.folder),
            "HF_HUB_OFFLINE": "1",
        }
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=1500
        )
        if check and done.returncode:
            raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def repro(self) -> set[str]:
        """`dvc repro`; the names of the stages that ran, without the two that always do."""
        return ran(self.run("dvc", "repro").stdout)

    def params(self) -> dict[str, Any]:
        return dict(yaml.safe_load((self.folder / "params.yaml").read_text()))

    def write_params(self, params: dict[str, Any]) -> None:
        (self.folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))

    def report(self, name: str) -> Any:
        return json.loads((self.folder / "reports" / name).read_text())


def ran(output: str) -> set[str]:
    return set(re.findall(r"^Running stage '([^']+)'", output, re.MULTILINE)) - {"environment", "source"}


def make(folder: Path) -> Project:
    for name in COPIED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    tiny.build(folder / "model")
    items = [
        {
            "id": f"colour-{n}",
            "category": "colour",
            "prompt": f"Number {n} is red. Which colour?",
            "target": {"any_of": ["red"]},
        }
        for n in range(12)
    ]
    eval_set = folder / "eval_sets" / "colours"
    eval_set.mkdir(parents=True)
    (eval_set / "card.yaml").write_text(yaml.safe_dump(CARD))
    (eval_set / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    project = Project(folder)
    project.write_params(PARAMS)
    project.run("git", "init", "-q")
    return project
