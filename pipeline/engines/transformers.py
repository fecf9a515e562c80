"""Hugging Face transformers on one device, with the kernels that the artifact's format brings.

Speed is measured on the model's own `generate`; answers to be scored come from `_transformers_decoding`.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import checkpoint, store
from pipeline.engines import Completion, EngineOptions, Question, _transformers_weights
from pipeline.engines import _transformers_kernels as kernels
from pipeline.engines._transformers_decoding import Decoder
from pipeline.probes import device as device_probe
from pipeline.readings import KvCache, RequestReading
from pipeline.records import EngineInfo

FORMATS = frozenset({"safetensors", "bitsandbytes", "gptq", "awq", "torchao"})
PACKAGES = ("torch", "transformers", "accelerate", "bitsandbytes", "gptqmodel", "optimum", "torchao")
TOOLCHAIN = None
TORCH_ALLOCATOR = True
QUANTIZES_AT_LOAD = True


def load(artifact: Path, options: EngineOptions) -> TransformersSession:
    """Load a complete artifact onto one device, settled: what the session tells of itself no longer changes.

    Sets torch's thread count for this process, as every worker process loads one model only.

    Raises:
        ValueError: the artifact lacks tensors that the model needs, or has them in other shapes.
    """
    import torch
    from transformers import AutoModelForCausalLM

    # bitsandbytes logs a warning in each layer at each token when activations are not float16, and that takes time.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    device_probe.set_threads(options.device, options.threads)
    with _transformers_weights.all_there():
        model = AutoModelForCausalLM.from_pretrained(
            artifact,
            dtype=getattr(torch, options.compute_dtype),
            device_map=options.device,
            local_files_only=True,
            use_safetensors=True,
            **_quantization_at_load(artifact),
        )
    model.eval()
    session = TransformersSession(model, options)
    if not session.misplaced():
        # Some kernels pack their weights, or decide to go without, at the first pass: before it neither the bytes that
        # decoding reads nor the fallbacks are known. A pass over parts on two devices would fail before they are named.
        session.prefill([[0]])
    return session


def _quantization_at_load(artifact: Path) -> dict[str, Any]:
    """What quantizes the artifact's unquantized weights while they are loaded; nothing where they are as they run."""
    from transformers.quantizers import AutoQuantizationConfig

    path = artifact / checkpoint.QUANTIZATION_AT_LOAD
    return {"quantization_config": AutoQuantizationConfig.from_dict(store.read_json(path))} if path.exists() else {}


class TransformersSession:
    def __init__(self, model: Any, options: EngineOptions) -> None:
        from transformers import GenerationConfig

        self._model = model
        self._options = options
        eos = model.generation_config.eos_token_id
        self._eos: frozenset[int] = frozenset(eos if isinstance(eos, list) else [] if eos is None else [eos])
        self._decoder = Decoder(model, options.device, self._eos)
        # `generate` fills whatever a call leaves unset from here: the checkpoint's own end tokens would cut pinned
        # outputs short, and its sampling settings and penalties would bend greedy decoding.
        model.generation_config = GenerationConfig()

    @property
    def model(self) -> Any:
        """The torch module, for a run that looks into single layers."""
        return self._model

    def info(self) -> EngineInfo:
        import torch

        on_cuda = self._options.device == "cuda"
        layers = list(self._linears())
        return EngineInfo(
            name="transformers",
            packages=checkpoint.package_versions(PACKAGES),
            device=self._options.device,
            device_name=torch.cuda.get_device_name() if on_cuda else "CPU",
            compute_dtype=self._options.compute_dtype,
            threads=None if on_cuda else torch.get_num_threads(),
            kernels=dict(sorted(Counter(map(kernels.name, layers)).items())),
            fallback_kernels=kernels.fallbacks(layers, self._options.device),
            attention=str(self._model.config._attn_implementation),
        )

    def weight_bytes(self) -> int:
        return kernels.weight_bytes(self._model.modules())

    def decode_weight_bytes(self) -> int:
        embedding = set(self._model.get_input_embeddings().modules())
        return kernels.weight_bytes(module for module in self._model.modules() if module not in embedding)

    def misplaced(self) -> list[str]:
        named = [*self._model.named_parameters(), *self._model.named_buffers()]
        return [name for name, tensor in named if tensor.device.type != self._options.device]

    def broken_weights(self) -> dict[str, str]:
        return _transformers_weights.broken(self._model)

    def answer(self, prompts: Sequence[Sequence[int]], output_tokens: int) -> RequestReading:
        import torch

        clock = _TokenClock(self._options.device, output_tokens)
        inputs = self._batch(prompts)
        device_probe.synchronise(self._options.device)
        clock.start()
        with torch.inference_mode():
            self._model.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                generation_config=self._pinned(output_tokens),
                streamer=clock,
            )
        return clock.reading()

    def prefill(self, prompts: Sequence[Sequence[int]]) -> float:
        import torch

        inputs = self._batch(prompts)
        device_probe.synchronise(self._options.device)
        start = time.perf_counter()
        with torch.inference_mode():
            self._model(input_ids=inputs, use_cache=True, logits_to_keep=1)
        device_probe.synchronise(self._options.device)
        return time.perf_counter() - start

    def kv_cache(self, prompt: Sequence[int]) -> KvCache:
        import torch

        with torch.inference_mode():
            output = self._model(input_ids=self._batch([prompt]), use_cache=True, logits_to_keep=1)
        # transformers 5.24 calls it `cache`, earlier ones `past_key_values`.
        cache = output.get("cache", output.get("past_key_values"))
        layers = getattr(cache, "layers", [])
        found = [getattr(layer, name, None) for layer in layers for name in ("keys", "values")]
        tensors = [tensor for tensor in found if tensor is not None]
        if not tensors or len(tensors) < len(found):
            raise RuntimeError(
                f"this model's cache ({type(cache).__name__}) does not hold keys and values of each layer"
            )
        return KvCache(
            **_cache_shape(self._model.config.get_text_config(decoder=True)),
            bytes_per_element=getattr(torch, self._options.compute_dtype).itemsize,
            measured_tokens=cache.get_seq_length(),
            measured_bytes=sum(tensor.nbytes for tensor in tensors),
        )

    def generate(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, shared: Sequence[int] = ()
    ) -> list[Completion]:
        return self._decoder.generate(prompts, max_new_tokens, shared)

    def choice_logprobs(self, questions: Sequence[Question], shared: Sequence[int] = ()) -> list[list[float]]:
        return self._decoder.choice_logprobs(questions, shared)

    def next_token_logits(self, token_ids: Sequence[int]) -> Any:
        return self._decoder.next_token_logits(token_ids)

    def _batch(self, prompts: Sequence[Sequence[int]]) -> Any:
        """Token ids [prompts, tokens] on the device."""
        import torch

        lengths = sorted({len(prompt) for prompt in prompts})
        if len(lengths) != 1:
            raise ValueError(f"prompts that are answered together must be equally long; their tokens: {lengths}")
        return torch.tensor([list(prompt) for prompt in prompts], device=self._options.device)

    def _pinned(self, tokens: int) -> Any:
        """Exactly `tokens` tokens by argmax alone, whatever the checkpoint's own generation config says."""
        from transformers import GenerationConfig

        return GenerationConfig(
            do_sample=False,
            num_beams=1,
            max_new_tokens=tokens,
            eos_token_id=None,
            pad_token_id=min(self._eos, default=0),
            use_cache=True,
        )

    def _linears(self) -> Iterator[Any]:
        """The decoder's linear layers, of whatever class the format brought.

        Found by their place and their input features: some hold their packed weights in a module of their own, so they
        are not always leaves.
        """
        for name, module in self._model.named_modules():
            if checkpoint.block(name) and hasattr(module, "in_features"):
                yield module


def _cache_shape(config: Any) -> dict[str, int]:
    """Layers, key-value heads and their width, with the defaults that transformers' own models use."""
    try:
        heads = config.num_attention_heads
        return {
            "layers": config.num_hidden_layers,
            "kv_heads": getattr(config, "num_key_value_heads", None) or heads,
            "head_dim": getattr(config, "head_dim", None) or config.hidden_size // heads,
        }
    except AttributeError as error:
        raise RuntimeError(f"the model's config does not tell the shape of its cache: {error}") from None


@dataclass(frozen=True)
class _Mark:
    cpu_s: float
    event: Any
    """A CUDA event, or None on a CPU."""


class _TokenClock:
    """A `generate` streamer that notes when each token of all rows is there.

    `generate` first puts the prompts, then at each step the new tokens of all rows after moving them to the host,
    which waits for the device (transformers 5.24, generation/utils.py `StopCheck`; only its `TextStreamer` is for one
    row). Clocks of CPU and device are read at the first and last token only.
    """

    def __init__(self, device: str, tokens: int) -> None:
        self._device = device
        self._tokens = tokens
        self._prompt_seen = False
        self._token_s: list[float] = []
        self._marks: dict[int, _Mark] = {}

    def start(self) -> None:
        self._marks[0] = self._mark()
        self._start = time.perf_counter()

    def put(self, value: Any) -> None:
        if not self._prompt_seen:
            self._prompt_seen = True
            return
        device_probe.synchronise(self._device)
        self._token_s.append(time.perf_counter() - self._start)
        count = len(self._token_s)
        if count in (1, self._tokens):
            self._marks[count] = self._mark()

    def end(self) -> None:
        pass

    def reading(self) -> RequestReading:
        """What was read; clocks of CPU and device only when there were as many tokens as expected."""
        if self._tokens not in self._marks:
            return RequestReading(token_s=self._token_s)
        start, first, last = self._marks[0], self._marks[1], self._marks[self._tokens]
        return RequestReading(
            token_s=self._token_s,
            cpu_s=(first.cpu_s - start.cpu_s, last.cpu_s - start.cpu_s),
            device_s=None
            if start.event is None
            else (
                device_probe.between_s(start.event, first.event),
                device_probe.between_s(start.event, last.event),
            ),
        )

    def _mark(self) -> _Mark:
        return _Mark(time.process_time(), device_probe.mark(self._device))
