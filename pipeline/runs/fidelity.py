"""Compare the next-token distributions of one artifact with the baseline's, token by token, on the fidelity text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
from pydantic import BaseModel, ConfigDict

from pipeline import checkpoint, progress, records, store
from pipeline.artifact_records import Manifest
from pipeline.engines import EngineOptions
from pipeline.errors import brief
from pipeline.fidelity_models import Misplaced, Model, Wanted, Window, model
from pipeline.metrics import divergence
from pipeline.probes import device, hardware
from pipeline.quality_records import Block, FidelityRecord, FidelityText
from pipeline.records import Status

ROOM = 1.5
"""Loaded weights and their workspace, as a multiple of the weight files."""
HOST_SHARE = 0.25
"""Of the machine's free memory, for the baseline's logits while the variant is loaded in its place."""


class Job(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    engine: str
    python: Path
    """The interpreter that has the engine's packages."""
    baseline: str
    baseline_engine: str
    baseline_python: Path
    device: str
    compute_dtype: dict[str, str]
    threads: int
    timeout_s: float
    """For one window of a model in a process of its own."""


def run(job: Job) -> FidelityRecord:
    """Read the text with both models, and compare them at every token but each window's first.

    Both stay loaded where they fit in memory together, else one is loaded at a time. The baseline itself is loaded
    twice: what comes out is what the engine alone adds. A model whose engine has a toolchain reads in a process there.

    Raises:
        ValueError: the two models' logits cannot be compared; see `divergence.compare`.
    """
    ours, theirs = (checkpoint.read_manifest(store.artifact(name)) for name in (job.variant, job.baseline))
    text = records.load(store.FIDELITY_PROMPT, FidelityText)
    common: dict[str, Any] = {
        "variant": job.variant,
        "text": text.text,
        "text_sha256": text.text_sha256,
        "window_tokens": text.window_tokens,
        "artifact_sha256": ours.artifact_sha256,
        "baseline_artifact_sha256": theirs.artifact_sha256,
    }
    if len({ours.tokenizer_sha256, theirs.tokenizer_sha256, text.tokenizer_sha256}) > 1:
        reason = f"{job.variant}, {job.baseline} and the text have different tokenizers: their tokens do not compare"
        return FidelityRecord(status=Status.FAILED, reason=reason, **common)
    on = device.resolve(job.device)
    options = EngineOptions(on, job.compute_dtype[on], job.threads)
    variant, baseline = (
        model(Wanted(*side, options, job.compute_dtype, job.timeout_s))
        for side in ((job.variant, job.engine, job.python), (job.baseline, job.baseline_engine, job.baseline_python))
    )
    try:
        found = _compare(baseline, variant, text.windows, _fit(on, ours, theirs))
    except Misplaced as error:
        return FidelityRecord(status=Status.INVALID, reason=str(error), engine=variant.engine, **common)
    except NoRoom as error:
        return FidelityRecord(status=Status.FAILED, reason=str(error), **common)
    finally:
        variant.unload()
        baseline.unload()
    return FidelityRecord(status=Status.OK, engine=variant.engine, **found.fields(), **common)


class NoRoom(Exception):
    """Not even one model at a time can read a window."""


class Comparison:
    """What has been compared so far; of each position only the divergence is kept."""

    def __init__(self, windows: int) -> None:
        self._windows = windows
        self._blocks: list[Block] = []
        self._kld: list[divergence.Values] = []

    def add(self, window: Window, baseline: divergence.Logits, variant: divergence.Logits) -> None:
        if not self._kld and baseline.shape[1] != variant.shape[1]:
            sizes = f"{baseline.shape[1]} rows of output of the baseline, {variant.shape[1]} of the variant"
            print(f"{sizes}: compared on those that both have", flush=True)
        # The last logits are of a token that the text does not have.
        found = divergence.compare(baseline[:-1], variant[:-1], window[1:])
        self._blocks += divergence.blocks(found)
        self._kld.append(found.kld)
        progress.report(len(self._kld), self._windows, "windows")

    def fields(self) -> dict[str, Any]:
        """Of the record."""
        kld = numpy.concatenate(self._kld)
        return {"blocks": self._blocks, "kld_p99": divergence.p99(kld), "kld_max": float(kld.max())}


def _compare(baseline: Model, variant: Model, windows: Sequence[Window], fit: bool) -> Comparison:
    """Both loaded where they are thought to `fit`; where that is wrong, and elsewhere, one at a time.

    Raises:
        Misplaced: see `Model.read`.
        NoRoom: there is too little memory for either way.
    """
    if fit:
        try:
            return _together(baseline, variant, windows)
        except Exception as error:
            if not device.is_out_of_memory(error):
                raise
            print(f"{brief(error)}: loading one model at a time", flush=True)
        # Only now are the frames of the failed pass gone, and with them the tensors that they hold.
        baseline.unload()
        variant.unload()
    try:
        return _in_turns(baseline, variant, windows, HOST_SHARE * hardware.available_bytes())
    except Exception as error:
        if not device.is_out_of_memory(error):
            raise
        raise NoRoom(
            f"out of memory even with one model at a time ({brief(error)}); lower fidelity.window_tokens, which is "
            f"{max(map(len, windows))} now"
        ) from None


def _together(baseline: Model, variant: Model, windows: Sequence[Window]) -> Comparison:
    found = Comparison(len(windows))
    for window in windows:
        found.add(window, baseline.read(window), variant.read(window))
    return found


def _in_turns(baseline: Model, variant: Model, windows: Sequence[Window], host_bytes: float) -> Comparison:
    """The baseline reads as many windows ahead as `host_bytes` hold logits of, then the variant reads the same."""
    found = Comparison(len(windows))
    done = 0
    while done < len(windows):
        kept: list[divergence.Logits] = []
        while done + len(kept) < len(windows) and sum(part.nbytes for part in kept) <= host_bytes:
            kept.append(baseline.read(windows[done + len(kept)]))
        baseline.unload()
        for logits in kept:
            found.add(windows[done], logits, variant.read(windows[done]))
            done += 1
        variant.unload()
    return found


def _fit(on: str, *manifests: Manifest) -> bool:
    """Whether all these models fit into the device's free memory together, about."""
    free = device.free_bytes(on).value
    return free is None or ROOM * sum(manifest.weight_bytes for manifest in manifests) <= free
