"""One llama.cpp context: a key-value cache of a fixed size, and reading tokens into it.

Only what the C interface takes and gives stands here (llama-cpp-python's `llama_cpp` module, of llama.h).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from pipeline.engines._llama_cpp_log import process_log

BATCH = 2048
"""Most tokens handed over at once; llama.cpp computes them in parts of 512, its own default."""
CELLS = 256
"""llama.cpp rounds the tokens that a sequence has room for up to a multiple of this."""
CELL_META_BYTES = 12
"""What the saved state of a sequence holds for each token beside keys and values: its position, the number of its
sequences, and the one (src/llama-kv-cache.cpp `state_write_meta`)."""
KV_TYPES = {"float32": 0, "float16": 1}
"""torch's name of a dtype → ggml's number of it (ggml.h, `ggml_type`)."""
SHORT_OF_MEMORY = ("failed to allocate", "out of memory")
"""How llama.cpp says that it did not get memory (src/llama-context.cpp, src/llama-kv-cache.cpp, ggml)."""


@dataclass(frozen=True)
class Size:
    sequences: int
    tokens: int
    """Room of each sequence, or of all together where they are `unified`."""
    outputs: int
    """Most tokens of one batch whose logits are wanted; llama.cpp sets memory aside for as many."""
    unified: bool
    """One cache for all sequences, which may share tokens; else each has its own, which attention reads faster."""

    def holds(self, other: Size) -> bool:
        """Whether a context of this size does for the other."""
        return self == self.grown(other)

    def grown(self, other: Size) -> Size:
        """The other, made large enough for this one too where that costs nothing but room for tokens."""
        if self.unified != other.unified or (self.sequences != other.sequences and not self.unified):
            return other
        larger = (max(ours, theirs) for ours, theirs in zip(astuple(self), astuple(other), strict=True))
        return Size(*larger)


@dataclass(frozen=True)
class Piece:
    """Tokens of one sequence that follow those it has."""

    sequence: int
    start: int
    """Position of the first."""
    token_ids: Sequence[int]
    wanted: int = 1
    """Of how many tokens at the end the logits are wanted."""


class Context:
    """Keys and values of sequences, by their numbers; `close` frees them."""

    def __init__(self, model: Any, size: Size, *, kv_dtype: str, threads: int | None) -> None:
        """
        Args:
            kv_dtype: of keys and values, one of `KV_TYPES`.
            threads: of the CPU; None leaves llama.cpp its default.

        Raises:
            MemoryError: llama.cpp did not get the memory.
            RuntimeError: it refuses for another reason.
        """
        import llama_cpp

        self._library = llama_cpp
        self.size = size
        most = int(llama_cpp.llama_max_parallel_sequences())
        if size.sequences > most:
            raise RuntimeError(f"llama.cpp computes at most {most} streams together, not {size.sequences}")
        options = llama_cpp.llama_context_default_params()
        room = -(-size.tokens // CELLS) * CELLS
        options.n_ctx = room if size.unified else room * size.sequences
        options.n_seq_max = size.sequences
        options.n_batch = BATCH
        # It sets aside a row of logits for each sequence in any case.
        options.n_outputs_max = max(size.outputs, size.sequences)
        options.kv_unified = size.unified
        options.type_k = options.type_v = KV_TYPES[kv_dtype]
        options.no_perf = True
        if threads is not None:
            options.n_threads = options.n_threads_batch = threads
        self._handle = llama_cpp.llama_init_from_model(model, options)
        if not self._handle:
            reason = process_log().last_line
            failure = MemoryError if any(words in reason for words in SHORT_OF_MEMORY) else RuntimeError
            raise failure(f"llama.cpp could not make a context of {options.n_ctx} tokens: {reason}")
        self._memory = llama_cpp.llama_get_memory(self._handle)
        self._batch = int(llama_cpp.llama_n_batch(self._handle))
        self._rows = int(llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model)))

    @property
    def threads(self) -> int:
        return int(self._library.llama_n_threads(self._handle))

    def close(self) -> None:
        if self._handle:
            self._library.llama_free(self._handle)
            self._handle = None

    def clear(self) -> None:
        """Forget every sequence."""
        self._library.llama_memory_clear(self._memory, False)

    def forget(self, sequence: int) -> None:
        self._library.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def share(self, source: int, target: int) -> None:
        """Let `target`, which has none, begin with all tokens of `source`; nothing is copied in a unified cache."""
        self._library.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def state_bytes(self, sequence: int) -> int:
        """Size of the sequence's saved state: keys, values, and a little that describes them."""
        return int(self._library.llama_state_seq_get_size(self._handle, sequence))

    def read(self, pieces: Sequence[Piece]) -> Any:
        """Take in all pieces; float32 logits [wanted tokens, vocabulary] in their order, device synchronised.

        Raises:
            RuntimeError: llama.cpp could not read them.
        """
        import numpy

        found = []
        for part in _parts(pieces, self._batch, self.size.outputs):
            code = self._library.llama_decode(self._handle, part.c_batch())
            if code != 0:
                raise RuntimeError(f"llama_decode failed ({code}): {_CODES.get(code, 'its reason is in the log')}")
            # Waits for the device.
            logits = self._library.llama_get_logits(self._handle) if part.wanted else None
            if logits is not None:
                found.append(numpy.ctypeslib.as_array(logits, (part.wanted, self._rows)).copy())
        return numpy.concatenate(found) if len(found) > 1 else found[0]


_CODES = {1: "the context has no room for the tokens", -1: "it takes the batch for faulty"}


@dataclass(frozen=True)
class _Part:
    """Some tokens of a batch, as arrays that stay in place while llama.cpp reads them."""

    tokens: Any
    positions: Any
    sequences: Any
    outputs: Any
    """1 where the logits are wanted."""

    @property
    def wanted(self) -> int:
        return int(self.outputs.sum())

    def c_batch(self) -> Any:
        """`llama_batch` with one sequence per token; it points into this part's arrays."""
        import llama_cpp
        import numpy

        count = len(self.tokens)
        ones = numpy.ones(count, dtype=numpy.int32)
        addresses = self.sequences.ctypes.data + numpy.arange(count, dtype=numpy.uintp) * self.sequences.itemsize
        pointers = dict(llama_cpp.llama_batch._fields_)
        batch = llama_cpp.llama_batch(
            n_tokens=count,
            token=self.tokens.ctypes.data_as(pointers["token"]),
            pos=self.positions.ctypes.data_as(pointers["pos"]),
            n_seq_id=ones.ctypes.data_as(pointers["n_seq_id"]),
            seq_id=ctypes.cast(addresses.ctypes.data, pointers["seq_id"]),
            logits=self.outputs.ctypes.data_as(pointers["logits"]),
        )
        batch.held = (ones, addresses)
        return batch


def _parts(pieces: Sequence[Piece], tokens: int, outputs: int) -> Iterator[_Part]:
    """The pieces one behind the other, in parts of at most `tokens` tokens and `outputs` wanted ones."""
    import numpy

    lengths = [len(piece.token_ids) for piece in pieces]
    places = [numpy.arange(length, dtype=numpy.int32) for length in lengths]
    both = list(zip(pieces, places, strict=True))
    whole = _Part(
        tokens=numpy.fromiter((token for piece in pieces for token in piece.token_ids), numpy.int32, sum(lengths)),
        positions=numpy.concatenate([piece.start + place for piece, place in both]).astype(numpy.int32),
        sequences=numpy.repeat(numpy.array([piece.sequence for piece in pieces], dtype=numpy.int32), lengths),
        outputs=numpy.concatenate([place >= len(place) - piece.wanted for piece, place in both]).astype(numpy.int8),
    )
    before = numpy.concatenate([[0], numpy.cumsum(whole.outputs, dtype=numpy.int64)])
    start = 0
    while start < sum(lengths):
        # The furthest end with no more outputs than allowed, counted from here.
        furthest = int(numpy.searchsorted(before, before[start] + outputs, side="right")) - 1
        end = min(start + tokens, furthest)
        yield _Part(*(array[start:end] for array in (whole.tokens, whole.positions, whole.sequences, whole.outputs)))
        start = end


def kv_dtype(compute_dtype: str) -> str:
    """torch's name for the dtype of keys and values where the model is asked to compute in `compute_dtype`.

    llama.cpp's own default for both 16-bit ones: for bfloat16 its attention on a CPU has neither tiles nor parts
    (ggml-cpu/ops.cpp, `ggml_compute_forward_flash_attn_ext`), and nobody serves with it.
    """
    return "float32" if compute_dtype == "float32" else "float16"
