"""Variants whose verdict is known before anything is measured, for `decision_truth.py --real`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.records import Status, VariantDecision, Verdict

BASELINE = "fp16"
FLIPPED = "fp16-flipped"
"""One byte of its weights file is changed after quantizing, and `dvc commit` takes the file as it is."""
QUALITY_GATE = "quality-drop"
GATES: Mapping[str, Mapping[str, Any]] = {
    QUALITY_GATE: {"metric": "quality_delta", "at_least": -0.02},
    "size": {"metric": "weight_bytes", "at_most": 1.0, "relative": True},
}
_DAMAGING = '''"""Copies the base and damages its weights before they are hashed, so that the manifest is theirs."""

from pipeline.quantizers.fp16 import ENVIRONMENT, FORMAT, PACKAGES, TOOLCHAIN, Settings, check
from pipeline.quantizers.fp16 import quantize as copy


def quantize(job):
    from safetensors.torch import load_file, save_file

    done = copy(job)
    path = job.out / "model.safetensors"
    tensors = load_file(path)
    {damage}
    save_file(tensors, path, {{"format": "pt"}})
    return done
'''
_DAMAGES: Mapping[str, str] = {
    "planted_nan": 'tensors[next(name for name in tensors if name.endswith("up_proj.weight"))][5, 17] = float("nan")',
    "planted_scaled": "[tensor.mul_(2) for name, tensor in tensors.items() if name.endswith('_proj.weight')]",
}
"""Quantizer → what it does to the weights: one NaN; every linear layer twice as large, as by wrong scales."""


@dataclass(frozen=True)
class Planted:
    """One variant and what must become of it."""

    name: str
    what: str
    quantizer: str
    verdict: Verdict
    status: Status | None = Status.OK
    """None: either the smoke gate stops it or the gates fail it."""
    because: str = ""
    """Stands in the reason why the smoke gate rejected it, or is the gate that must fail."""
    settings: Mapping[str, Any] | None = None

    @property
    def params(self) -> dict[str, Any]:
        return {"quantizer": self.quantizer, "engine": "transformers", "settings": dict(self.settings or {})}

    def wrong(self, decided: VariantDecision) -> str | None:
        """What is not as expected; None where all is."""
        if decided.verdict is not self.verdict:
            return f"{decided.verdict} instead of {self.verdict}"
        if self.status is not None and decided.status is not self.status:
            return f"its status is {decided.status} instead of {self.status}"
        if decided.status is not Status.OK:
            return None if self.because in decided.why else f"no word of {self.because!r}"
        failed = {gate.gate for gate in decided.gates if gate.verdict is Verdict.FAIL}
        lacking = self.verdict is Verdict.FAIL and QUALITY_GATE not in failed
        return f"gate {QUALITY_GATE} did not fail" if lacking else None


PLANTED = (
    Planted(BASELINE, "the baseline", "fp16", Verdict.PASS),
    Planted("fp16-copy", "an exact copy of fp16", "fp16", Verdict.PASS),
    Planted(
        "int3-rtn",
        "round-to-nearest, 3 bits, groups of 64",
        "rtn",
        Verdict.FAIL,
        settings={"bits": 3, "group_size": 64},
    ),
    Planted(
        "int2-rtn",
        "round-to-nearest, 2 bits, groups of 64",
        "rtn",
        Verdict.FAIL,
        status=None,
        because="collapsed",
        settings={"bits": 2, "group_size": 64},
    ),
    Planted(
        FLIPPED, "one byte of the weights file changed afterwards", "fp16", Verdict.FAIL, Status.INVALID, "damaged"
    ),
    Planted(
        "fp16-nan", "one weight NaN, manifest made after it", "planted_nan", Verdict.FAIL, Status.INVALID, "broken"
    ),
    Planted(
        "fp16-scaled",
        "linear layers doubled, manifest made after it",
        "planted_scaled",
        Verdict.FAIL,
        status=None,
        because="collapsed",
    ),
)


def plant(project: Path) -> None:
    """Put the damaging quantizers among the project's own."""
    for name, damage in _DAMAGES.items():
        text = _DAMAGING.format(damage=damage)
        (project / "pipeline" / "quantizers" / f"{name}.py").write_text(text, encoding="utf-8")


def flip(weights: Path) -> None:
    """Change the lowest bit of one byte in the middle of the file: no engine would notice."""
    with weights.open("r+b") as stream:
        stream.seek(weights.stat().st_size // 2)
        [byte] = stream.read(1)
        stream.seek(-1, 1)
        stream.write(bytes([byte ^ 1]))
