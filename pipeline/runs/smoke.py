"""Load an artifact from disk as later stages will, and look whether it still is the model that it was made from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
from pydantic import BaseModel, ConfigDict

from pipeline import artifact_files, checkpoint, engines, records, smoke_reading, store
from pipeline.engines import EngineOptions, Session, misplaced_reason
from pipeline.errors import UserError, brief
from pipeline.metrics import divergence
from pipeline.probes import device
from pipeline.quality_records import Flaw
from pipeline.records import EngineInfo, Status, known
from pipeline.smoke_records import (
    Answer,
    Check,
    CheckOutcome,
    Reference,
    SmokeRecord,
    SmokeTexts,
    failed,
    passed,
    skipped,
)

BROKEN_ANSWERS = frozenset({Flaw.EMPTY, Flaw.DEGENERATE})
NOT_ITS_FAULT = (UserError, ImportError)
"""What says nothing about the artifact, as running out of memory does."""
SHOWN = 40
"""Characters of an answer in a reason."""


class Job(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    engine: str
    device: str
    compute_dtype: dict[str, str]
    threads: int
    kld_max: float
    """Nats."""
    top1_min: float


def run(job: Job) -> SmokeRecord:
    """Every check that can be made; one that fails hides none of the others.

    Raises:
        Exception: what says nothing about the artifact: out of memory, or a package that is missing.
    """
    folder = store.artifact(job.variant)
    manifest = checkpoint.read_manifest(folder)
    reference = records.load(store.REFERENCE_RECORD, Reference)
    texts = records.load(store.SMOKE_TEXTS, SmokeTexts)
    checks = [artifact_files.intact(folder, manifest), *artifact_files.same_as_base(folder, store.BASE)]
    on = device.resolve(job.device)
    engine: EngineInfo | None = None
    try:
        session = engines.load(job.engine, folder, EngineOptions(on, job.compute_dtype[on], job.threads))
        engine = session.info()
    except Exception as error:
        checks.append(_raised("load", error))
    else:
        checks.append(passed("load", f"loads in a fresh process, computes in {engine.compute_dtype}"))
        checks += Loaded(session, texts, reference, job).checks(on)
    broken = [check.words for check in checks if check.outcome is CheckOutcome.FAILED]
    return SmokeRecord(
        variant=job.variant,
        status=Status.INVALID if broken else Status.OK,
        reason="; ".join(broken) or None,
        artifact_sha256=manifest.artifact_sha256,
        base_artifact_sha256=reference.artifact_sha256,
        texts_sha256=texts.sha256,
        engine=engine,
        checks=checks,
    )


class Loaded:
    """The checks of a model that did load."""

    def __init__(self, session: Session, texts: SmokeTexts, reference: Reference, job: Job) -> None:
        self._session = session
        self._texts = texts
        self._reference = reference
        self._job = job

    def checks(self, on: str) -> Iterator[Check]:
        if misplaced := self._session.misplaced():
            # A pass over parts on two devices would fail for that reason alone.
            yield failed("device", misplaced_reason(misplaced, on))
            return
        yield passed("device", f"every parameter is on {on}")
        yield _attempt("weights", self._weights)
        yield _attempt("distributions", self._distributions)
        yield _attempt("answers", self._answers)

    def _weights(self, name: str) -> Check:
        broken = self._session.broken_weights()
        if broken is None:
            return skipped(name, "the engine cannot look at its weights")
        found = {tensor: what for tensor, what in broken.items() if self._reference.broken_weights.get(tensor) != what}
        if not found:
            return passed(name, "no NaN or infinity, and none is all zero")
        first, what = next(iter(found.items()))
        words = f"{len(found)} weights are broken, the first of them {first}, which holds {what}"
        return failed(name, words, broken=known(len(found)))

    def _distributions(self, name: str) -> Check:
        """Mean KLD and top-1 agreement with the base at the scored positions."""
        windows = self._texts.windows
        ours = list(smoke_reading.scored_logits(self._session, windows))
        positions = sum(map(len, ours))
        broken = sum(int((~numpy.isfinite(part)).any(axis=1).sum()) for part in ours)
        if broken:
            words = f"logits are not finite numbers at {broken} of {positions} positions"
            return failed(name, words, positions=known(positions), not_finite=known(broken))
        if self._reference.reason:
            return skipped(name, f"not compared, since the base could not be read: {self._reference.reason}")
        kld, agreement = _compare(numpy.load(store.REFERENCE_LOGITS, mmap_mode="r"), ours, windows)
        words = (
            f"KLD {kld:.3g} (at most {self._job.kld_max:g}), "
            f"top-1 agreement {100 * agreement:.3g} % (at least {100 * self._job.top1_min:g} %)"
        )
        readings = {"kld_mean": known(kld), "top1_agreement": known(agreement), "positions": known(positions)}
        if kld > self._job.kld_max or agreement < self._job.top1_min:
            return failed(name, f"collapsed: {words}", **readings)
        return passed(name, words, **readings)

    def _answers(self, name: str) -> Check:
        """Answers to prompts that the base answers with text; a small base may loop on its own."""
        given = smoke_reading.answers(self._session, self._texts.prompts)
        base = self._reference.answers or [Answer(text="", flaw=None)] * len(given)
        asked = [ours for ours, theirs in zip(given, base, strict=True) if theirs.flaw not in BROKEN_ANSWERS]
        broken = [answer for answer in asked if answer.flaw in BROKEN_ANSWERS]
        readings = {"asked": known(len(asked)), "broken": known(len(broken))}
        if 2 * len(asked) <= len(given):
            words = f"the base answers only {len(asked)} of {len(given)} prompts with text itself"
            return skipped(name, words, **readings)
        if 2 * len(broken) > len(given):
            first = broken[0]
            words = f"{len(broken)} of {len(given)} answers are empty or degenerate"
            known_better = " where the base's are not" if self._reference.answers else ""
            return failed(name, f"{words}{known_better}, e.g. {first.text[:SHOWN]!r} ({first.flaw})", **readings)
        return passed(name, f"{len(asked) - len(broken)} of {len(asked)} answers are text", **readings)


def _compare(base: Any, ours: Sequence[Any], windows: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Mean KL(base ‖ variant) in nats and the share of positions with the same likeliest token."""
    kld: list[divergence.Values] = []
    agreed: list[Any] = []
    start = 0
    for logits, window in zip(ours, windows, strict=True):
        found = divergence.compare(base[start : start + len(logits)], logits, smoke_reading.scored_tokens(window))
        start += len(logits)
        kld.append(found.kld)
        agreed.append(found.agreed)
    return float(numpy.concatenate(kld).mean()), float(numpy.concatenate(agreed).mean())


def _attempt(name: str, check: Callable[[str], Check]) -> Check:
    try:
        return check(name)
    except Exception as error:
        return _raised(name, error)


def _raised(name: str, error: Exception) -> Check:
    if isinstance(error, NOT_ITS_FAULT) or device.is_out_of_memory(error):
        raise error
    return failed(name, f"{name}: {brief(error)}")
