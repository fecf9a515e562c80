"""The two models that the fidelity run compares, each loaded where the packages of its engine are."""

from __future__ import annotations

import gc
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy

from pipeline import engines, plugins, store
from pipeline.engines import EngineOptions, Session, misplaced_reason
from pipeline.metrics import divergence
from pipeline.probes import device
from pipeline.readings import FailureKind
from pipeline.records import EngineInfo
from pipeline.residents import Load, Loaded, LogitsWritten, ReadLogits, Resident, TurnError

Window = list[int]


class Misplaced(Exception):
    """A model has parameters on another device than asked for."""


@dataclass(frozen=True)
class Wanted:
    """What is to be loaded, and how."""

    variant: str
    engine: str
    python: Path
    """The interpreter that has the engine's packages."""
    options: EngineOptions
    compute_dtype: dict[str, str]
    """Device → torch dtype."""
    timeout_s: float
    """For loading, and for reading one window, in a process of its own."""


class Model(Protocol):
    """One side of the comparison: loaded when it reads first, and again after it was unloaded."""

    engine: EngineInfo | None
    """As it was when last loaded."""

    def read(self, window: Window) -> divergence.Logits:
        """After each token, the logits of the next: [tokens, vocabulary].

        Raises:
            Misplaced: parameters are not on the device asked for.
            MemoryError: and others that `device.is_out_of_memory` knows.
        """

    def unload(self) -> None: ...


def model(wanted: Wanted) -> Model:
    """In this process where its engine is in this environment, else in one of its own."""
    here = plugins.load("pipeline.engines", wanted.engine).TOOLCHAIN is None
    return ModelHere(wanted) if here else ModelApart(wanted)


class ModelHere:
    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._session: Session | None = None
        self.engine: EngineInfo | None = None

    def read(self, window: Window) -> divergence.Logits:
        if self._session is None:
            self._session = self._load()
        logits: divergence.Logits = self._session.next_token_logits(window)
        return logits

    def unload(self) -> None:
        self._session = None
        gc.collect()
        device.release_memory()

    def _load(self) -> Session:
        wanted = self._wanted
        session = engines.load(wanted.engine, store.artifact(wanted.variant), wanted.options)
        self.engine = session.info()
        _require_placed(wanted, session.misplaced())
        return session


class ModelApart:
    """In a worker process under the interpreter of its engine's toolchain; its logits come through a file."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._resident: Resident | None = None
        self.engine: EngineInfo | None = None

    def read(self, window: Window) -> divergence.Logits:
        try:
            if self._resident is None:
                self._resident = self._load()
            with tempfile.TemporaryDirectory(prefix="quantgate-logits-") as folder:
                path = Path(folder, "logits.npy")
                message = ReadLogits(token_ids=window, path=str(path))
                self._resident.ask(message, LogitsWritten, self._wanted.timeout_s)
                logits: divergence.Logits = numpy.load(path, allow_pickle=False)
        except TurnError as error:
            if error.kind is FailureKind.OUT_OF_MEMORY:
                raise MemoryError(error.reason) from None
            raise
        return logits

    def unload(self) -> None:
        if self._resident is not None:
            self._resident.close()
            self._resident = None

    def _load(self) -> Resident:
        wanted = self._wanted
        # Cores, waiting and allocator are those of this process, which it inherits.
        resident = Resident({}, wanted.python)
        load = Load(
            variant=wanted.variant,
            engine=wanted.engine,
            device=wanted.options.device,
            compute_dtype=wanted.compute_dtype,
            threads=wanted.options.threads,
            cores=None,
            settings={},
            seed=0,
            ours=[],
        )
        try:
            loaded = resident.ask(load, Loaded, wanted.timeout_s)
            self.engine = loaded.engine
            _require_placed(wanted, loaded.misplaced)
        except BaseException:
            resident.close()
            raise
        return resident


def _require_placed(wanted: Wanted, misplaced: list[str]) -> None:
    if misplaced:
        raise Misplaced(f"{wanted.variant}: {misplaced_reason(misplaced, wanted.options.device)}")
