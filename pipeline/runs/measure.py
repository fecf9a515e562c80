"""The process in which one model is measured: `python -m pipeline.runs.measure DESCRIPTOR`.

It answers the messages of `pipeline.residents` one at a time until its starter closes the pipe, and sleeps in between.
"""

from __future__ import annotations

import gc
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter

from pipeline import engines, records, store
from pipeline.engines import EngineOptions
from pipeline.errors import UserError, brief
from pipeline.probes import contention, device, limits, placement, process
from pipeline.readings import FailureKind, MemoryReadings
from pipeline.records import Reading
from pipeline.residents import (
    Answer,
    CacheMeasured,
    Finish,
    Finished,
    LimitsMeasured,
    Load,
    Loaded,
    LogitsWritten,
    MeasureCache,
    MeasureLimits,
    Mistake,
    ReadLogits,
    Refused,
    Turn,
    TurnTaken,
)

MESSAGES: TypeAdapter[Any] = TypeAdapter(
    Annotated[Load | Turn | MeasureCache | ReadLogits | MeasureLimits | Finish, Field(discriminator="kind")]
)


RUN_MEMORY = (
    "process_run_peak_bytes",
    "allocator_peak_bytes",
    "allocator_reserved_peak_bytes",
    "nvml_process_bytes",
)
"""Fields of `MemoryReadings` of which the largest reading over all requests counts."""


PEAK = {"cuda": "allocator_reserved_peak_bytes", "cpu": "process_run_peak_bytes"}
"""The one that is the memory of a request on this device."""


PEAK_BY_DRIVER = "nvml_process_bytes"
"""The same for an engine on CUDA that takes memory past torch's allocator. It is read after the request, when such an
engine still has all that the request took."""


NOT_TORCH = "the engine takes its memory past torch's allocator"


class Worker:
    """A loaded model and what its process has seen so far."""

    def __init__(self, job: Load) -> None:
        placement.pin(job.cores)
        self._device = device.resolve(job.device)
        self._dtype = job.compute_dtype[self._device]
        self._ours = job.ours
        device.seed(job.seed)
        start = time.monotonic()
        self._session = engines.load(
            job.engine, store.artifact(job.variant), EngineOptions(self._device, self._dtype, job.threads)
        )
        self._load_s = time.monotonic() - start
        self._load_peak = process.peak_bytes()
        self._peaks_restart = process.reset_peak()
        self._by_driver = self._device == "cuda" and not engines.torch_allocator(job.engine)
        self._peak = PEAK_BY_DRIVER if self._by_driver else PEAK[self._device]
        self._settings = job.settings
        self._weight_bytes = self._session.weight_bytes()
        self._throttle_count = contention.cpu_throttle_count()
        self._seen: dict[str, list[Reading]] = {}
        self._idle_s = self._idle_cpu_s = 0.0

    def loaded(self) -> Loaded:
        return Loaded(
            engine=self._session.info().model_copy(update={"settings": self._settings}),
            load_s=self._load_s,
            misplaced=self._session.misplaced(),
            decode_weight_bytes=self._session.decode_weight_bytes(),
        )

    def turn(self, turn: Turn) -> TurnTaken:
        device.reset_peak(self._device)
        reading = self._session.answer(turn.prompts, turn.output_tokens)
        self._look_around()
        if turn.prefill:
            reading = reading.model_copy(update={"prefill_s": self._session.prefill(turn.prompts)})
        return TurnTaken(reading=reading, peak_bytes=self._seen[self._peak][-1])

    def cache(self, message: MeasureCache) -> CacheMeasured:
        return CacheMeasured(cache=self._session.kv_cache(message.prompt))

    def logits(self, message: ReadLogits) -> LogitsWritten:
        import numpy

        numpy.save(message.path, self._session.next_token_logits(message.token_ids), allow_pickle=False)
        return LogitsWritten()

    def limits(self, message: MeasureLimits) -> LimitsMeasured:
        return LimitsMeasured(limits=limits.measure(self._device, self._dtype))

    def finish(self, message: Finish) -> Finished:
        memory = {name: largest(self._seen.get(name, [])) for name in RUN_MEMORY}
        return Finished(
            memory=MemoryReadings(
                peaks_by_driver=self._by_driver,
                weight_bytes=records.known(self._weight_bytes),
                process_load_peak_bytes=self._load_peak,
                **memory,
            ),
            swap_bytes=largest(self._seen.get("swap_bytes", [])),
            idle_cpu_share=records.known(self._idle_cpu_s / self._idle_s)
            if self._idle_s
            else records.missing("the process was never idle"),
            foreign_gpu_processes=largest(self._seen.get("foreign_gpu_processes", [])),
            throttled_share=mean(self._seen.get("throttled", [])),
        )

    def rested(self, wall_s: float, cpu_s: float) -> None:
        """Told after each wait for a message."""
        self._idle_s += wall_s
        self._idle_cpu_s += cpu_s

    def _look_around(self) -> None:
        """What this request took and what else was going on, read outside of its clock."""
        on = self._device
        readings = {
            "process_run_peak_bytes": process.peak_bytes()
            if self._peaks_restart
            else records.missing("the system did not let the peak be counted anew after loading"),
            "allocator_peak_bytes": self._of_allocator(device.allocator_peak_bytes),
            "allocator_reserved_peak_bytes": self._of_allocator(device.allocator_reserved_peak_bytes),
            "nvml_process_bytes": device.nvml_process_bytes(on),
            "swap_bytes": process.swapped_bytes(),
            "foreign_gpu_processes": contention.foreign_gpu_processes(on, self._ours),
            "throttled": contention.throttled(on) if on == "cuda" else self._cpu_throttled(),
        }
        for name, reading in readings.items():
            self._seen.setdefault(name, []).append(reading)

    def _of_allocator(self, read: Callable[[str], Reading]) -> Reading:
        return records.missing(NOT_TORCH) if self._by_driver else read(self._device)

    def _cpu_throttled(self) -> Reading:
        """1 when a core was held down since the last look, else 0."""
        before, now = self._throttle_count, contention.cpu_throttle_count()
        self._throttle_count = now
        if before.value is None or now.value is None:
            return before if before.value is None else now
        return records.known(float(now.value > before.value))


def largest(found: list[Reading]) -> Reading:
    """The largest known reading; missing, with the first reason, when none is known."""
    known = [reading.value for reading in found if reading.value is not None]
    return records.known(max(known)) if known else _unknown(found)


def mean(found: list[Reading]) -> Reading:
    """The mean of the known readings; missing, with the first reason, when none is known."""
    known = [reading.value for reading in found if reading.value is not None]
    return records.known(sum(known) / len(known)) if known else _unknown(found)


def _unknown(found: list[Reading]) -> Reading:
    return records.missing(next((r.reason for r in found if r.reason), "no turn was taken"))


def serve(connection: Connection) -> None:
    """Answer until the other end is closed."""
    worker: Worker | None = None

    def load(message: Load) -> Loaded:
        nonlocal worker
        worker = Worker(message)
        return worker.loaded()

    while True:
        wall_s, cpu_s = time.monotonic(), time.process_time()
        try:
            received = connection.recv_bytes()
        except EOFError:
            return
        if worker is not None:
            worker.rested(time.monotonic() - wall_s, time.process_time() - cpu_s)
        message = MESSAGES.validate_json(received)
        handle: Callable[[Any], BaseModel] = load if worker is None else getattr(worker, message.kind)
        connection.send_bytes(_answer(handle, message).model_dump_json().encode())


def _answer(handle: Callable[[Any], BaseModel], message: BaseModel) -> Answer:
    try:
        return Answer(done=handle(message).model_dump(mode="json"))
    except UserError as error:
        return Answer(mistake=Mistake(problems=list(error.problems)))
    except Exception as error:
        # Whatever goes wrong inside a library is the result of this turn; the next one may do.
        traceback.print_exc()
        kind = FailureKind.OUT_OF_MEMORY if device.is_out_of_memory(error) else FailureKind.ERROR
        refused = Refused(failure=kind, reason=brief(error))
    # Only now are the frames of the failed request gone, and with them the tensors that they hold.
    gc.collect()
    device.release_memory()
    return Answer(refused=refused)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
