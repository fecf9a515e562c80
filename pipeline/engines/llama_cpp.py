"""llama.cpp through llama-cpp-python's low-level interface: GGUF files on a CPU, or on one GPU.

Weights are multiplied in the format that they are stored in, activations rounded to 8 bits in blocks for it, so the
compute dtype of params.yaml decides over keys and values alone. llama.cpp's tokenizer and samplers are not used.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline import checkpoint, store
from pipeline.engines import Completion, EngineOptions, Question
from pipeline.engines._gguf_weights import EMBEDDING, StoredTensor, broken, decode_bytes, kernels, stored
from pipeline.engines._llama_cpp_context import CELL_META_BYTES, Context, Piece, Size, kv_dtype
from pipeline.engines._llama_cpp_log import attention, on_host, process_log
from pipeline.engines._prompts import require_continuing, require_equally_long
from pipeline.errors import UserError
from pipeline.quality_records import FinishReason
from pipeline.readings import KvCache, RequestReading
from pipeline.records import EngineInfo

FORMATS = frozenset({"gguf"})
PACKAGES = ("llama-cpp-python", "gguf")
TOOLCHAIN = "llama-cpp@cf3a3a4702cf"
TORCH_ALLOCATOR = False
QUANTIZES_AT_LOAD = False

OUTPUTS = 128
"""Most logits asked for at once while scoring; llama.cpp sets memory for as many rows of the vocabulary aside."""
SHARED, PROMPT = 0, 1
"""Sequences: what all prompts begin with is kept in the one, the first prompt stands in the other."""


def load(artifact: Path, options: EngineOptions) -> LlamaCppSession:
    """Load the artifact's GGUF file, all layers on the device asked for.

    Raises:
        UserError: the GPU is asked for, but this build of llama.cpp computes on the CPU only.
        RuntimeError: llama.cpp cannot load the file, or there is not just one.
    """
    import llama_cpp

    if options.device == "cuda" and not llama_cpp.llama_supports_gpu_offload():
        raise UserError(
            "this build of llama-cpp-python computes on the CPU only; make its toolchain anew with the environment "
            "variable CMAKE_ARGS=-DGGML_CUDA=on, or set runtime.device to cpu"
        )
    log = process_log()
    log.lines.clear()
    wanted = llama_cpp.llama_model_default_params()
    wanted.n_gpu_layers = -1 if options.device == "cuda" else 0
    # One GPU, as the other engines use.
    wanted.split_mode = llama_cpp.LLAMA_SPLIT_MODE_NONE
    path = _gguf_file(artifact)
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), wanted)
    if not model:
        raise RuntimeError(f"llama.cpp cannot load {path}: {log.last_line}")
    session = LlamaCppSession(model, path, options)
    # Weights are mapped into memory: the first pass reads them from the disk.
    session.prefill([[0]])
    session.said = tuple(log.lines)
    return session


class LlamaCppSession:
    def __init__(self, model: Any, path: Path, options: EngineOptions) -> None:
        import llama_cpp

        self._library = llama_cpp
        self._model = model
        self._path = path
        self._options = options
        self._kv_dtype = kv_dtype(options.compute_dtype)
        self._eos = end_tokens(path.parent)
        self._context: Context | None = None
        self._shared: tuple[int, ...] = ()
        """Tokens that the present context keeps in `SHARED`."""
        self.said: Sequence[str] = ()
        """llama.cpp's log until it was loaded and had made a first pass."""

    def __del__(self) -> None:
        if self._context is not None:
            self._context.close()
        self._library.llama_model_free(self._model)

    def info(self) -> EngineInfo:
        on_cuda = self._options.device == "cuda"
        version = self._library.llama_version().decode()
        return EngineInfo(
            name="llama_cpp",
            packages={**checkpoint.package_versions(PACKAGES), "llama.cpp": version},
            device=self._options.device,
            device_name=_gpu_name() if on_cuda else "CPU",
            compute_dtype=self._options.compute_dtype,
            threads=None if on_cuda else self._options.threads,
            kernels=kernels(self._tensors),
            attention=f"{attention(self.said)}, keys and values in {self._kv_dtype}",
        )

    def weight_bytes(self) -> int:
        return sum(tensor.bytes for tensor in self._tensors.values())

    def decode_weight_bytes(self) -> int:
        return decode_bytes(self._tensors)

    def misplaced(self) -> list[str]:
        if self._options.device != "cuda":
            return []
        return on_host(self.said, self._tensors[EMBEDDING].bytes)

    def broken_weights(self) -> dict[str, str] | None:
        return broken(self._path)

    def answer(self, prompts: Sequence[Sequence[int]], output_tokens: int) -> RequestReading:
        length = require_equally_long(prompts)
        context = self._side_by_side(len(prompts), length + output_tokens)
        token_s: list[float] = []
        cpu_s: list[float] = []
        start_cpu_s, start_s = time.process_time(), time.perf_counter()
        logits = context.read([Piece(stream, 0, prompt) for stream, prompt in enumerate(prompts)])
        while True:
            chosen = logits.argmax(-1).tolist()
            token_s.append(time.perf_counter() - start_s)
            if len(token_s) in (1, output_tokens):
                cpu_s.append(time.process_time() - start_cpu_s)
            if len(token_s) == output_tokens:
                return RequestReading(token_s=token_s, cpu_s=(cpu_s[0], cpu_s[-1]))
            place = length + len(token_s) - 1
            logits = context.read([Piece(stream, place, [token]) for stream, token in enumerate(chosen)])

    def prefill(self, prompts: Sequence[Sequence[int]]) -> float:
        context = self._side_by_side(len(prompts), require_equally_long(prompts))
        start_s = time.perf_counter()
        context.read([Piece(stream, 0, prompt) for stream, prompt in enumerate(prompts)])
        return time.perf_counter() - start_s

    def kv_cache(self, prompt: Sequence[int]) -> KvCache:
        context = self._side_by_side(1, len(prompt) + 1)
        context.read([Piece(0, 0, prompt[:1])])
        # What describes the cache as a whole is in both sizes.
        before = context.state_bytes(0)
        context.read([Piece(0, 1, prompt)])
        measured = context.state_bytes(0) - before - CELL_META_BYTES * len(prompt)
        return KvCache(
            layers=self._library.llama_model_n_layer(self._model),
            kv_heads=self._library.llama_model_n_head_kv(self._model),
            head_dim=self._head_dim(),
            bytes_per_element={"float32": 4, "float16": 2}[self._kv_dtype],
            measured_tokens=len(prompt),
            measured_bytes=measured,
        )

    def generate(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, shared: Sequence[int] = ()
    ) -> list[Completion]:
        require_continuing(prompts, shared)
        at_once = self._library.llama_max_parallel_sequences() - PROMPT
        groups = [prompts[start : start + at_once] for start in range(0, len(prompts), at_once)]
        return [completion for group in groups for completion in self._generate(group, max_new_tokens, shared)]

    def _generate(self, prompts: Sequence[Sequence[int]], limit: int, shared: Sequence[int]) -> list[Completion]:
        room = sum(len(prompt) - len(shared) + limit for prompt in prompts)
        context = self._behind(shared, sequences=len(prompts), tokens=room)
        logits = context.read([_rest(context, PROMPT + row, prompt, shared) for row, prompt in enumerate(prompts)])
        answers: list[list[int]] = [[] for _ in prompts]
        going = list(range(len(prompts)))
        for remaining in reversed(range(limit)):
            chosen = dict(zip(going, logits.argmax(-1).tolist(), strict=True))
            going = [row for row, token in chosen.items() if token not in self._eos]
            for row in going:
                answers[row].append(chosen[row])
            if not going or not remaining:
                break
            logits = context.read(
                [Piece(PROMPT + row, len(prompts[row]) + len(answers[row]) - 1, [chosen[row]]) for row in going]
            )
        return [
            Completion(answer, FinishReason.LENGTH if row in going else FinishReason.STOP)
            for row, answer in enumerate(answers)
        ]

    def choice_logprobs(self, questions: Sequence[Question], shared: Sequence[int] = ()) -> list[list[float]]:
        require_continuing(
            [question.prompt for question in questions], shared, [question.choices for question in questions]
        )
        return [self._logprobs(question, shared) for question in questions]

    def _logprobs(self, question: Question, shared: Sequence[int]) -> list[float]:
        """The prompt is read first, then all choices together, each behind the prompt's keys and values."""
        prompt, choices = question.prompt, question.choices
        room = len(prompt) - len(shared) + sum(map(len, choices))
        context = self._behind(shared, sequences=1 + len(choices), tokens=room)
        first = context.read([_rest(context, PROMPT, prompt, shared)])
        sums = [logprobs(first, choice[:1])[0] for choice in choices]
        longer = [number for number, choice in enumerate(choices) if len(choice) > 1]
        pieces = []
        for number in longer:
            context.share(PROMPT, PROMPT + 1 + number)
            read = choices[number][:-1]
            pieces.append(Piece(PROMPT + 1 + number, len(prompt), read, wanted=len(read)))
        following = iter(context.read(pieces) if pieces else ())
        for number in longer:
            for token in choices[number][1:]:
                sums[number] += logprobs(next(following)[None], [token])[0]
        return sums

    def next_token_logits(self, token_ids: Sequence[int]) -> Any:
        context = self._behind((), sequences=1, tokens=len(token_ids))
        return context.read([Piece(PROMPT, 0, token_ids, wanted=len(token_ids))])

    @cached_property
    def _tensors(self) -> Mapping[str, StoredTensor]:
        return stored(self._path)

    def _side_by_side(self, streams: int, tokens: int) -> Context:
        """An empty context of streams with caches of their own."""
        context = self._sized(Size(streams, tokens, outputs=streams, unified=False))
        context.clear()
        self._shared = ()
        return context

    def _behind(self, shared: Sequence[int], *, sequences: int, tokens: int) -> Context:
        """A context that holds `shared` alone, with room for `sequences` more that have `tokens` in all behind it."""
        context = self._sized(Size(PROMPT + sequences, len(shared) + tokens, OUTPUTS, unified=True))
        if self._shared == tuple(shared):
            for sequence in range(PROMPT, context.size.sequences):
                context.forget(sequence)
            return context
        context.clear()
        self._shared = ()
        if shared:
            context.read([Piece(SHARED, 0, shared)])
        self._shared = tuple(shared)
        return context

    def _sized(self, size: Size) -> Context:
        """The present context where it holds as much, else a new one in its place."""
        if self._context is not None:
            if self._context.size.holds(size):
                return self._context
            size = self._context.size.grown(size)
            self._context.close()
            self._context, self._shared = None, ()
        threads = None if self._options.device == "cuda" else self._options.threads
        self._context = Context(self._model, size, kv_dtype=self._kv_dtype, threads=threads)
        return self._context

    def _head_dim(self) -> int:
        architecture = self._metadata("general.architecture")
        width = self._metadata(f"{architecture}.attention.key_length")
        if width:
            return int(width)
        return int(self._library.llama_model_n_embd(self._model) // self._library.llama_model_n_head(self._model))

    def _metadata(self, key: str) -> str:
        """A value of the GGUF file's metadata as text; empty where it has none."""
        import ctypes

        text = ctypes.create_string_buffer(256)
        self._library.llama_model_meta_val_str(self._model, key.encode(), text, len(text))
        return text.value.decode()


def _rest(context: Context, sequence: int, prompt: Sequence[int], shared: Sequence[int]) -> Piece:
    """What is left to read of a prompt in an empty sequence, which is made to begin with the shared tokens."""
    if shared:
        context.share(SHARED, sequence)
    return Piece(sequence, len(shared), prompt[len(shared) :])


def logprobs(logits: Any, tokens: Sequence[int]) -> list[float]:
    """Natural log-probability of each token after the row of logits [tokens, vocabulary] in its place."""
    import numpy

    highest = logits.max(-1, keepdims=True)
    total = numpy.exp(logits - highest).sum(-1, dtype=numpy.float64)
    picked = logits[numpy.arange(len(tokens)), list(tokens)] - highest[:, 0]
    return [float(value) for value in picked - numpy.log(total)]


def end_tokens(folder: Path) -> frozenset[int]:
    """End-of-sequence tokens: those of generation_config.json, else of config.json."""
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        eos = store.read_json(path).get("eos_token_id") if path.is_file() else None
        if eos is not None:
            return frozenset(eos if isinstance(eos, list) else [eos])
    return frozenset()


def _gguf_file(artifact: Path) -> Path:
    found = sorted(artifact.glob("*.gguf"))
    if len(found) != 1:
        raise RuntimeError(f"{artifact}: one .gguf file is loaded, there are {len(found)}")
    return found[0]


def _gpu_name() -> str:
    import torch

    return str(torch.cuda.get_device_name())
