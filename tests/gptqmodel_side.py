"""Runs GPTQModel quantizers in a process of their own: `python gptqmodel_side.py BASE OUT CASES RESULT`.

CASES is JSON: name → {"quantizer", "settings", "spoil": how much too low the smallest eigenvalue of layer 0's
down_proj Hessian is made, as a share of its mean diagonal, or null, "first": the tokens of the first of
the calibration samples, 64 by default as in the others}. RESULT gets name → modules and attempts.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline import plugins
from pipeline.quantizers import QuantizeJob, _gptqmodel

SPOILED = "model.layers.0.mlp.down_proj"


def spoiling(share: float) -> Callable[[Any], Any]:
    """GPTQModel's `GPTQ.finalize_hessian`; one layer's smallest eigenvalue is then -`share` of its mean diagonal."""

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def finalize_hessian(task: Any, *arguments: Any, **named: Any) -> Any:
            import torch

            found = plain(task, *arguments, **named)
            if task._named_module.full_name == SPOILED:
                hessian = task.H
                lowest = torch.linalg.eigvalsh(hessian)[0]
                mean = hessian.diagonal().mean()
                # With c taken off the diagonal, mean - c is the new mean and lowest - c is to be -share of it.
                hessian.diagonal().sub_((lowest + share * mean) / (1 + share))
            return found

        return finalize_hessian

    return make


def run(base: Path, out: Path, case: dict[str, Any]) -> dict[str, Any]:
    from gptqmodel.quantization.gptq import GPTQ

    drawn = random.Random(0)
    calibration = [[drawn.randrange(500) for _ in range(64)] for _ in range(8)]
    calibration[0] = case.get("first", calibration[0])
    module = plugins.load("pipeline.quantizers", case["quantizer"])
    out.mkdir()
    job = QuantizeJob(
        base=base,
        out=out,
        settings=module.Settings.model_validate({"calibration": {"set": "none", "samples": 8}, **case["settings"]}),
        calibration=calibration,
        device="cpu",
        compute_dtype="float32",
        seed=0,
    )
    spoil = case.get("spoil")
    with contextlib.ExitStack() as stack:
        if spoil is not None:
            stack.enter_context(_gptqmodel.replaced(GPTQ, "finalize_hessian", spoiling(spoil)))
        done = module.quantize(job)
    return {"modules": list(done.modules), "attempts": [attempt.model_dump() for attempt in done.attempts]}


def main(base: str, out: str, cases: str, result: str) -> None:
    found = {name: run(Path(base), Path(out, name), case) for name, case in json.loads(cases).items()}
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
