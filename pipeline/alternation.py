"""Variant and baseline taking turns in one pair of fresh processes, from loading to the last turn.

Every level is first tried once by each side, from small to large, which warms up and tells the memory that this size
takes. Then the turns that count go round all levels, so that drift of the machine meets them alike. Which side loads
first is drawn at random for each pair of processes, and which one answers first for each pair of turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from pipeline.levels import Level
from pipeline.readings import (
    Alternation,
    DeviceLimits,
    Failure,
    FailureKind,
    KvCache,
    LevelPeak,
    PairReading,
    ProcessReading,
    RequestReading,
    Side,
)
from pipeline.residents import (
    CacheMeasured,
    Finish,
    Finished,
    LimitsMeasured,
    Load,
    Loaded,
    MeasureCache,
    MeasureLimits,
    Message,
    Reply,
    TurnError,
    TurnTaken,
)

TRIES = 2
"""The deciding level is given up when it failed this often, any other at its first failure: the rest goes on."""

Key = tuple[str, int]


class Worker(Protocol):
    """See `pipeline.residents.Resident`."""

    @property
    def pid(self) -> int: ...

    def ask(self, message: Message, expected: type[Reply], timeout_s: float) -> Reply: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Setting:
    """How every pair of processes is measured."""

    loads: Mapping[Side, Load]
    start: Callable[[Side], Worker]
    load_timeout_s: float
    request_timeout_s: float
    workload_timeout_s: float
    random: Random
    step: Callable[[str], None]
    """Told what was done, for the progress display."""


@dataclass
class Findings:
    """What all pairs of processes gave so far."""

    pairs: dict[Key, list[PairReading]] = field(default_factory=dict)
    processes: list[ProcessReading] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    loaded: dict[Side, Loaded] = field(default_factory=dict)
    cache: KvCache | None = None
    limits: DeviceLimits | None = None

    first_try: int = 0
    """Failures in earlier pairs of processes do not count: both models were loaded then, now one at a time is."""

    def given_up(self, side: Side, level: Level) -> bool:
        """Whether this size is not tried again: it failed, did not fit, or smaller ones of its workload did so."""
        tries = [f for f in self.failures if f.side is side and f.workload == level.workload]
        tries = [f for f in tries if f.process >= self.first_try and f.kind is not FailureKind.SKIPPED]
        own = [f.kind for f in tries if f.concurrency == level.concurrency]
        smaller = [f.kind for f in tries if f.concurrency and f.concurrency < level.concurrency]
        enough = len(own) >= (TRIES if level.deciding else 1) or len(smaller) >= TRIES
        return enough or FailureKind.OUT_OF_MEMORY in (*own, *smaller)

    def load_failures(self, side: Side, process: int) -> list[Failure]:
        """Why this side did not load in this pair of processes."""
        return [f for f in self.failures if (f.side, f.step, f.process) == (side, "load", process)]


class WorkerLostError(Exception):
    """A worker could not load, loaded to the wrong device, or is gone: this pair of processes is over."""


class ProcessPair:
    """One pair of fresh processes. What it finds is kept, whatever becomes of the processes."""

    def __init__(self, number: int, setting: Setting, findings: Findings) -> None:
        self._number = number
        self._setting = setting
        self._findings = findings
        self._taken: dict[tuple[Key, int], dict[Side, RequestReading]] = {}
        """By level and turn; the sides stand in the order in which they took it."""
        self._gone: set[Side] = set()
        self._alternation = Alternation.RESIDENT
        self._spent_s: dict[tuple[Side, Key], float] = {}

    def measure(self, levels: Sequence[Level], alternation: Alternation, *, probe: bool) -> bool:
        """Measure the levels, given from small to large; true when the processes lived to the end.

        Raises:
            UserError: a worker found a mistake that the user must mend.
        """
        self._alternation = alternation
        sides = self._order(self._setting.loads)
        blocks = [(side,) for side in sides] if alternation is Alternation.BLOCKS else [tuple(sides)]
        try:
            for block in blocks:
                self._block(block, levels, probe=probe)
        except WorkerLostError:
            return False
        finally:
            self._keep(levels)
        return True

    def _block(self, sides: Sequence[Side], levels: Sequence[Level], *, probe: bool) -> None:
        with ExitStack() as stack:
            workers: dict[Side, Worker] = {}
            for side in sides:
                workers[side] = self._setting.start(side)
                stack.callback(workers[side].close)
            self._load(workers)
            peaks: dict[Side, list[LevelPeak]] = {side: [] for side in sides}
            try:
                for level in levels:
                    for side, taken in self._turns(workers, level, counts=False):
                        peaks[side].append(_peak(level, taken))
                for level, turn in _rounds(levels):
                    for side, taken in self._turns(workers, level, counts=True):
                        self._taken.setdefault((level.key, turn), {})[side] = taken.reading
                if probe and Side.VARIANT in workers:
                    self._probe(workers[Side.VARIANT], levels[0])
            finally:
                # What the one that is left has seen counts for the turns that are kept.
                lived = [self._finish(worker, side, peaks[side]) for side, worker in workers.items()]
            if not all(lived):
                raise WorkerLostError

    def _order(self, sides: Mapping[Side, object]) -> list[Side]:
        drawn = list(sides)
        self._setting.random.shuffle(drawn)
        return drawn

    def _load(self, workers: Mapping[Side, Worker]) -> None:
        """One after the other, since loading at the same time would slow both."""
        ours = [worker.pid for worker in workers.values()]
        for side, worker in workers.items():
            message = self._setting.loads[side].model_copy(update={"ours": ours})
            try:
                self._findings.loaded[side] = worker.ask(message, Loaded, self._setting.load_timeout_s)
            except TurnError as error:
                self._fail(error, side, step="load")
                raise WorkerLostError from error
            self._setting.step(f"loading the {side.value}")
        if any(self._findings.loaded[side].misplaced for side in workers):
            raise WorkerLostError

    def _turns(self, workers: Mapping[Side, Worker], level: Level, *, counts: bool) -> Iterator[tuple[Side, TurnTaken]]:
        """Each side's turn, in random order; without those that failed or are not tried."""
        for side in self._order(workers):
            if self._findings.given_up(side, level) or self._findings.given_up(Side.VARIANT, level):
                continue
            taken = self._take(workers[side], side, level, counts)
            self._setting.step(f"{level.workload} × {level.concurrency}")
            if taken:
                yield side, taken

    def _take(self, worker: Worker, side: Side, level: Level, counts: bool) -> TurnTaken | None:
        limit, spent = self._setting.workload_timeout_s, self._spent_s.get((side, level.key), 0.0)
        start = time.monotonic()
        try:
            if spent > limit:
                raise TurnError(FailureKind.SKIPPED, f"the time for this workload, {limit:g} s, was spent")
            return worker.ask(level.turn(counts=counts), TurnTaken, self._setting.request_timeout_s)
        except TurnError as error:
            self._fail(error, side, step="request", workload=level.workload, concurrency=level.concurrency)
            if not error.worker_lives:
                self._gone.add(side)
                raise WorkerLostError from error
            return None
        finally:
            self._spent_s[side, level.key] = spent + time.monotonic() - start

    def _probe(self, worker: Worker, smallest: Level) -> None:
        """What the cache takes and what the device can do; without them a few derived numbers are missing."""
        cache = self._ask_probe(worker, MeasureCache(prompt=list(smallest.prompt)), CacheMeasured)
        limits = self._ask_probe(worker, MeasureLimits(), LimitsMeasured)
        self._findings.cache = cache.cache if cache else None
        self._findings.limits = limits.limits if limits else None

    def _ask_probe(self, worker: Worker, message: Message, expected: type[Reply]) -> Reply | None:
        try:
            return worker.ask(message, expected, self._setting.request_timeout_s)
        except TurnError as error:
            self._fail(error, Side.VARIANT, step="probe")
            if not error.worker_lives:
                self._gone.add(Side.VARIANT)
                raise WorkerLostError from error
            return None

    def _finish(self, worker: Worker, side: Side, peaks: list[LevelPeak]) -> bool:
        """Keep what the process has seen; false when it is gone."""
        if side in self._gone:
            return False
        try:
            seen = worker.ask(Finish(), Finished, self._setting.request_timeout_s)
        except TurnError as error:
            self._fail(error, side, step="finish")
            return False
        self._findings.processes.append(
            ProcessReading(
                process=self._number,
                side=side,
                alternation=self._alternation,
                load_s=self._findings.loaded[side].load_s,
                peaks=peaks,
                **{name: getattr(seen, name) for name in Finished.model_fields},
            )
        )
        return True

    def _fail(self, error: TurnError, side: Side, **where: Any) -> None:
        failure = Failure(process=self._number, side=side, kind=error.kind, reason=error.reason, **where)
        self._findings.failures.append(failure)

    def _keep(self, levels: Sequence[Level]) -> None:
        for level, turn in _rounds(levels):
            taken = self._taken.get((level.key, turn), {})
            if Side.VARIANT in taken:
                self._findings.pairs.setdefault(level.key, []).append(
                    PairReading(
                        process=self._number,
                        variant_first=next(iter(taken)) is Side.VARIANT,
                        variant=taken[Side.VARIANT],
                        baseline=taken.get(Side.BASELINE),
                    )
                )


def _rounds(levels: Sequence[Level]) -> Iterator[tuple[Level, int]]:
    """Turn by turn round all levels that still have one."""
    for turn in range(max(level.pairs for level in levels)):
        for level in levels:
            if turn < level.pairs:
                yield level, turn


def _peak(level: Level, taken: TurnTaken) -> LevelPeak:
    return LevelPeak(
        workload=level.workload, concurrency=level.concurrency, tokens=level.tokens, peak_bytes=taken.peak_bytes
    )
