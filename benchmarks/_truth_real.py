"""The planted variants through the real stages: a clone of the project, `dvc repro`, and the decision read back."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import _truth_planted
import yaml
from _truth_planted import BASELINE, FLIPPED, GATES, PLANTED

from pipeline import records, store
from pipeline.records import Decision

ROOT = Path(__file__).resolve().parents[1]
WORKLOAD = "instruction"
EVAL_SET = "support-desk"


def judge(project: Path, base: Path | None) -> list[str]:
    """Make and judge every planted variant in a clone below `project`; what is not as expected.

    Args:
        base: folder of a base model that was made before; None: as params.yaml says.
    """
    start = time.monotonic()
    _run(ROOT, "git", "clone", "--quiet", str(ROOT), str(project))
    # What was measured of other variants in another project must not be told apart from this one's.
    _run(project, "git", "rm", "-r", "--quiet", "reports", "dvc.lock")
    params = store.PARAMS
    raw = yaml.safe_load((project / params).read_text(encoding="utf-8"))
    (project / params).write_text(yaml.safe_dump(settings(raw, base), sort_keys=False), encoding="utf-8")
    _truth_planted.plant(project)
    _run(project, "quantgate", "check")
    _run(project, "dvc", "repro", "--quiet", f"quantize@{FLIPPED}")
    [weights] = (project / store.artifact(FLIPPED)).glob("*.safetensors")
    _truth_planted.flip(weights)
    _run(project, "dvc", "commit", "--quiet", "--force", f"quantize@{FLIPPED}")
    _run(project, "dvc", "repro")
    decision = records.load(project / store.REPORTS / "decision.json", Decision)
    print(f"{decision.headline}\n{time.monotonic() - start:.0f} s in all", flush=True)
    return [*report(decision)]


def settings(raw: Mapping[str, Any], base: Path | None) -> dict[str, Any]:
    """The project's params with the planted variants, one eval set, one workload and little time for speed."""
    workload = {**raw["benchmark"]["workloads"][WORKLOAD], "pairs": 2}
    benchmark = {
        **raw["benchmark"],
        "pairing": {**raw["benchmark"]["pairing"], "budget_s": 20},
        "workloads": {WORKLOAD: workload},
        "sweep": {"workload": WORKLOAD, "concurrency": [1], "pairs": 1},
    }
    model = raw["model"] if base is None else {**raw["model"], "source": {"kind": "local", "path": str(base.resolve())}}
    return {
        **raw,
        "model": model,
        "baseline": BASELINE,
        "variants": {planted.name: planted.params for planted in PLANTED},
        "benchmark": benchmark,
        "eval_sets": {EVAL_SET: {"weight": 1.0}},
        "evaluate": {**raw["evaluate"], "invariance_items": 8},
        "fidelity": {**raw["fidelity"], "tokens": 5632},
        "gates": {name: dict(gate) for name, gate in GATES.items()},
        "decision": {
            **raw["decision"],
            "workload": WORKLOAD,
            "profile": "speed",
            "profiles": {"speed": {"weights": {"speedup": 1}}},
        },
    }


def report(decision: Decision) -> Iterator[str]:
    """Print what became of each planted variant; yields what is not as expected."""
    decided = {variant.variant: variant for variant in decision.variants}
    for planted in PLANTED:
        found = decided[planted.name]
        wrong = planted.wrong(found)
        print(f"{planted.name} ({planted.what}): {found.status}, {found.verdict}; {found.why}")
        for gate in found.gates:
            print(f"    {gate.gate}: {gate.verdict}; {gate.reason}")
        if wrong:
            yield f"{planted.name}: {wrong}"
    allowed = {planted.name for planted in PLANTED if planted.verdict is records.Verdict.PASS}
    if decision.pick not in allowed:
        yield f"the pick is {decision.pick}, not one of {', '.join(sorted(allowed))}"


def _run(folder: Path, *command: str) -> None:
    """Run in the project with this Python's environment; its output goes on to ours.

    Raises:
        SystemExit: the command failed.
    """
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
    }
    print(f"$ {' '.join(command)}", flush=True)
    done = subprocess.run(command, cwd=folder, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode} in {folder}")
