"""Workers that are no processes: they answer as told, and fail as planned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pipeline.readings import DeviceLimits, FailureKind, KvCache, MemoryReadings, RequestReading, Side
from pipeline.records import EngineInfo, known, missing
from pipeline.residents import (
    CacheMeasured,
    Finished,
    LimitsMeasured,
    Load,
    Loaded,
    Message,
    Turn,
    TurnError,
    TurnTaken,
)

ENGINE = EngineInfo(
    name="fake",
    packages={},
    device="cpu",
    device_name="CPU",
    compute_dtype="float32",
    threads=1,
    kernels={},
    attention="",
)
MEMORY = MemoryReadings(
    weight_bytes=known(1),
    process_load_peak_bytes=known(1),
    process_run_peak_bytes=known(1),
    allocator_peak_bytes=missing("x"),
    allocator_reserved_peak_bytes=missing("x"),
    nvml_process_bytes=missing("x"),
)


@dataclass
class Stage:
    """Where fake workers act: notes every message in order, and fails as planned."""

    fails: Callable[[str, Message], TurnError | None] = lambda variant, message: None
    misplaced: list[str] = field(default_factory=list)
    heard: list[tuple[str, str]] = field(default_factory=list)
    alive: int = 0
    most_alive: int = 0
    started: int = 0

    def start(self, side: Side) -> FakeWorker:
        self.started += 1
        self.alive += 1
        self.most_alive = max(self.alive, self.most_alive)
        return FakeWorker(self, self.started)

    def turns(self) -> list[tuple[str, str]]:
        return [(variant, kind) for variant, kind in self.heard if kind not in ("load", "finish", "cache", "limits")]


@dataclass
class FakeWorker:
    stage: Stage
    pid: int
    variant: str = ""
    answered: int = 0

    def ask(self, message: Message, expected: type[Any], timeout_s: float) -> Any:
        if isinstance(message, Load):
            self.variant = message.variant
            assert self.pid in message.ours
        kind = getattr(message, "kind", "")
        size = f"{len(message.prompts)}×{len(message.prompts[0])}" if isinstance(message, Turn) else kind
        self.stage.heard.append((self.variant, size))
        error = self.stage.fails(self.variant, message)
        if error:
            raise error
        self.answered += isinstance(message, Turn)
        return {
            "load": lambda: Loaded(engine=ENGINE, load_s=1, misplaced=self.stage.misplaced, decode_weight_bytes=5),
            "turn": lambda: TurnTaken(
                reading=RequestReading(token_s=[float(self.answered), float(self.answered) + 1]),
                peak_bytes=known(self.answered),
            ),
            "cache": lambda: CacheMeasured(
                cache=KvCache(
                    layers=1, kv_heads=1, head_dim=1, bytes_per_element=2, measured_tokens=1, measured_bytes=4
                )
            ),
            "limits": lambda: LimitsMeasured(
                limits=DeviceLimits(bytes_per_s={"copy": 1.0}, array_bytes=1, flops_per_s=known(1))
            ),
            "finish": lambda: Finished(
                memory=MEMORY,
                swap_bytes=known(0),
                idle_cpu_share=known(0.01),
                foreign_gpu_processes=missing("no GPU"),
                throttled_share=missing("no GPU"),
            ),
        }[kind]()

    def close(self) -> None:
        self.stage.alive -= 1


def planned(variant: str, kind: str, error: TurnError, streams: int | None = None, times: int = 99) -> Any:
    left = [times]

    def fails(who: str, message: Message) -> TurnError | None:
        fits = streams is None or (isinstance(message, Turn) and len(message.prompts) == streams)
        if who == variant and getattr(message, "kind", "") == kind and fits and left[0]:
            left[0] -= 1
            return error
        return None

    return fails


OOM = TurnError(FailureKind.OUT_OF_MEMORY, "no room")
DIED = TurnError(FailureKind.WORKER_DIED, "killed")
HUNG = TurnError(FailureKind.TIMEOUT, "no answer within 3 s")
RAISED = TurnError(FailureKind.ERROR, "ValueError: x")
