"""How close decoding comes to what the device can do, and what bounds it.

The roofline (Williams, Waterman, Patterson 2009, *Communications of the ACM* 52(4):65) has two ceilings: bytes moved
per second and operations per second. Both are measured on this device, not taken from a data sheet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.metrics import display
from pipeline.metrics.latency import WorkloadSpeed
from pipeline.readings import DeviceLimits
from pipeline.records import Reading, known, missing

NEAR = 0.5
"""Share of a ceiling from which on it counts as what bounds decoding."""


class Bound(StrEnum):
    BANDWIDTH = "bandwidth"
    COMPUTE = "compute"
    OVERHEAD = "overhead"
    """Neither ceiling is near: Python, kernel launches, unpacking of weights, waiting between threads."""
    UNKNOWN = "unknown"
    """One of the two shares is missing and the other is low."""


@dataclass(frozen=True)
class Work:
    """What one decode step has to move and compute. A step gives every stream one token."""

    weight_bytes: int
    """Read once in a step, whatever the number of streams."""
    kv_bytes_per_token: float
    parameters: int

    def step_bytes(self, speed: WorkloadSpeed) -> float:
        """Weights once, and the cache of every stream, which holds prompt + output / 2 tokens on average."""
        cached = speed.concurrency * (speed.prompt_tokens + speed.output_tokens / 2)
        return self.weight_bytes + self.kv_bytes_per_token * cached

    def step_operations(self, speed: WorkloadSpeed) -> float:
        """A multiplication and an addition for each weight and stream; attention is left out."""
        return 2.0 * self.parameters * speed.concurrency


@dataclass(frozen=True)
class Roofline:
    mbu: Reading
    """Model bandwidth utilisation."""
    mfu: Reading
    """Model operations ("flops") utilisation."""

    @property
    def bound(self) -> Bound:
        """The ceiling that decoding is nearer to, if it is at half of it or above."""
        mbu, mfu = self.mbu.value, self.mfu.value
        if mbu is not None and mbu >= NEAR and mbu >= (mfu or 0):
            return Bound.BANDWIDTH
        if mfu is not None and mfu >= NEAR:
            return Bound.COMPUTE
        return Bound.UNKNOWN if mbu is None or mfu is None else Bound.OVERHEAD

    @property
    def words(self) -> str:
        """One line that says what bounds decoding, with the numbers."""
        return _WORDS[self.bound].format(
            mbu=_shown(self.mbu, "of the memory bandwidth"), mfu=_shown(self.mfu, "of the compute rate")
        )


_WORDS = {
    Bound.BANDWIDTH: "bound by memory bandwidth: decoding takes {mbu} and {mfu} measured on this device",
    Bound.COMPUTE: "bound by compute: decoding takes {mfu} and {mbu} measured on this device",
    Bound.OVERHEAD: (
        "bound by overhead (Python, kernel launches, unpacking of weights): decoding takes only {mbu} and {mfu} "
        "measured on this device"
    ),
    Bound.UNKNOWN: "what bounds decoding is not known: it takes {mbu} and {mfu} measured on this device",
}


def _shown(share: Reading, of: str) -> str:
    return f"an unknown share {of}" if share.value is None else f"{display.share(share.value)} {of}"


def utilisation(work: Work, speed: WorkloadSpeed, limits: Sequence[DeviceLimits]) -> Roofline:
    """Shares of the device's ceilings that decoding reaches. `limits` are all probes of this device; the best counts.

    - MBU = bytes of a step × steps/s / best bandwidth (Databricks 2023, "LLM Inference Performance Engineering: Best
      Practices": (total model parameter size + KV cache size) / TPOT / peak bandwidth).
    - MFU = operations of a step × steps/s / best compute rate (Chowdhery et al. 2022, PaLM, appendix B).

    Steps/s is the decode rate of one stream. A share above 1 means that part of the model stays in a cache.
    """
    steps_per_s = speed.decode_tokens_per_s
    bandwidth = [rate for probe in limits for rate in probe.bytes_per_s.values()]
    compute = [probe.flops_per_s.value for probe in limits if probe.flops_per_s.value]
    return Roofline(
        mbu=_share(work.step_bytes(speed), steps_per_s, bandwidth, "the memory bandwidth was not measured"),
        mfu=_share(work.step_operations(speed), steps_per_s, compute, "the compute rate was not measured"),
    )


def _share(work: float, steps_per_s: Reading, ceilings: Sequence[float], unmeasured: str) -> Reading:
    if steps_per_s.value is None:
        return steps_per_s
    best = max(ceilings, default=0.0)
    return known(work * steps_per_s.value / best) if best > 0 else missing(unmeasured)
