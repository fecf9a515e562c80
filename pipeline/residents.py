"""Worker processes that keep one model loaded and take one turn at a time; between turns they sleep on a pipe.

The two ends: `Resident` starts such a process and asks; `pipeline.runs.measure` is the process and answers. Messages
are JSON, so that what crosses is what the models below say and nothing else.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from pipeline import processes
from pipeline.errors import UserError
from pipeline.readings import DeviceLimits, FailureKind, KvCache, MemoryReadings, RequestReading
from pipeline.records import EngineInfo, Reading


class Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Load(Message):
    """Load an artifact. The first message that a worker gets."""

    kind: Literal["load"] = "load"
    variant: str
    engine: str
    device: str
    compute_dtype: dict[str, str]
    threads: int
    cores: list[int] | None
    settings: dict[str, str]
    """How the process was set up, for the record."""
    seed: int
    ours: list[int]
    """Processes whose use of the device is ours."""


class Loaded(Message):
    engine: EngineInfo
    load_s: float
    misplaced: list[str]
    """Parameters that are not on the device asked for."""
    decode_weight_bytes: int


class Turn(Message):
    """Answer `prompts` together with exactly `output_tokens` tokens each."""

    kind: Literal["turn"] = "turn"
    prompts: list[list[int]]
    output_tokens: int
    prefill: bool
    """Also time a forward pass over the prompts alone."""


class TurnTaken(Message):
    reading: RequestReading
    peak_bytes: Reading


class MeasureCache(Message):
    kind: Literal["cache"] = "cache"
    prompt: list[int]


class CacheMeasured(Message):
    cache: KvCache


class ReadLogits(Message):
    """Write, for each token, the logits of the next one to `path` as a NumPy file: [tokens, vocabulary], float32."""

    kind: Literal["logits"] = "logits"
    token_ids: list[int]
    path: str


class LogitsWritten(Message):
    pass


class MeasureLimits(Message):
    kind: Literal["limits"] = "limits"


class LimitsMeasured(Message):
    limits: DeviceLimits


class Finish(Message):
    """Tell what the process has seen; no turn follows."""

    kind: Literal["finish"] = "finish"


class Finished(Message):
    memory: MemoryReadings
    swap_bytes: Reading
    idle_cpu_share: Reading
    foreign_gpu_processes: Reading
    throttled_share: Reading


class Refused(Message):
    """The turn gave no reading; the worker is ready for the next one."""

    failure: FailureKind
    reason: str


class Mistake(Message):
    """What the user must mend."""

    problems: list[str]


class Answer(Message):
    """What comes back: exactly one of these."""

    done: dict[str, object] | None = None
    refused: Refused | None = None
    mistake: Mistake | None = None


class TurnError(Exception):
    """A turn gave no reading."""

    def __init__(self, kind: FailureKind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason

    @property
    def worker_lives(self) -> bool:
        return self.kind not in (FailureKind.TIMEOUT, FailureKind.WORKER_DIED)


Reply = TypeVar("Reply", bound=Message)


class Resident:
    """One worker process. It is in the process group of its starter, so it ends with it."""

    def __init__(self, environment: Mapping[str, str], python: Path = processes.PYTHON) -> None:
        self._connection, theirs = Pipe()
        try:
            self._process = subprocess.Popen(
                [str(python), "-m", "pipeline.runs.measure", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=processes.environment(python, environment),
            )
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, message: Message, expected: type[Reply], timeout_s: float) -> Reply:
        """Send one message and wait for its answer.

        Raises:
            TurnError: the worker refused, died, or did not answer in time; in the latter two cases it is gone.
            UserError: the worker found a mistake that the user must mend.
        """
        try:
            self._connection.send_bytes(message.model_dump_json().encode())
            if not self._connection.poll(timeout_s):
                self.close()
                raise TurnError(FailureKind.TIMEOUT, f"no answer within {timeout_s:g} s")
            answer = Answer.model_validate_json(self._connection.recv_bytes())
        except (EOFError, OSError):
            code = self._process.wait()
            self.close()
            raise TurnError(FailureKind.WORKER_DIED, processes.ending(code)) from None
        if answer.mistake:
            raise UserError(answer.mistake.problems)
        if answer.refused:
            raise TurnError(answer.refused.failure, answer.refused.reason)
        return expected.model_validate(answer.done)

    def close(self) -> None:
        """End the worker, whatever it is doing."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self._connection.close()
