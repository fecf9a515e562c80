"""Hugging Face transformers: `generate` on one device, with the kernels that the artifact's format brings."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline import checkpoint
from pipeline.engines import Completion, EngineOptions
from pipeline.probes import device as device_probe
from pipeline.records import EngineInfo, FinishReason, RequestReading

FORMATS = frozenset({"safetensors", "bitsandbytes", "gptq", "awq"})
PACKAGES = ("torch", "transformers", "accelerate", "bitsandbytes", "gptqmodel", "optimum")


def load(artifact: Path, options: EngineOptions) -> TransformersSession:
    """Load a complete artifact onto one device.

    Sets torch's thread count for this process, as every worker process loads one model only.
    """
    import torch
    from transformers import AutoModelForCausalLM

    device_probe.set_threads(options.device, options.threads)
    model = AutoModelForCausalLM.from_pretrained(
        artifact,
        dtype=getattr(torch, options.compute_dtype),
        device_map=options.device,
        local_files_only=True,
        use_safetensors=True,
    )
    model.eval()
    return TransformersSession(model, options)


class TransformersSession:
    def __init__(self, model: Any, options: EngineOptions) -> None:
        from transformers import GenerationConfig

        self._model = model
        self._options = options
        eos = model.generation_config.eos_token_id
        self._eos: frozenset[int] = frozenset(eos if isinstance(eos, list) else [] if eos is None else [eos])
        # `generate` fills whatever a call leaves unset from here: the checkpoint's own end tokens would cut pinned
        # outputs short, and its sampling settings and penalties would bend greedy decoding.
        model.generation_config = GenerationConfig()

    def info(self) -> EngineInfo:
        import torch

        on_cuda = self._options.device == "cuda"
        return EngineInfo(
            name="transformers",
            packages=checkpoint.package_versions(PACKAGES),
            device=self._options.device,
            device_name=torch.cuda.get_device_name() if on_cuda else "CPU",
            compute_dtype=self._options.compute_dtype,
            threads=None if on_cuda else torch.get_num_threads(),
            kernels=dict(sorted(Counter(type(module).__name__ for module in self._linears()).items())),
            attention=str(self._model.config._attn_implementation),
        )

    def weight_bytes(self) -> int:
        tensors = {tensor.data_ptr(): tensor.nbytes for tensor in self._tensors() if tensor.nbytes}
        return sum(tensors.values())

    def misplaced(self) -> list[str]:
        named = [*self._model.named_parameters(), *self._model.named_buffers()]
        return [name for name, tensor in named if tensor.device.type != self._options.device]

    def stream(self, prompt: Sequence[int], output_tokens: int) -> RequestReading:
        import torch

        clock = _TokenClock(self._options.device)
        inputs = torch.tensor([list(prompt)], device=self._options.device)
        device_probe.synchronise(self._options.device)
        clock.start()
        with torch.inference_mode():
            self._model.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                generation_config=self._greedy(output_tokens, stop=False),
                streamer=clock,
            )
        return RequestReading(token_s=clock.token_s)

    def prefill(self, prompt: Sequence[int]) -> float:
        import torch

        inputs = torch.tensor([list(prompt)], device=self._options.device)
        device_probe.synchronise(self._options.device)
        start = time.perf_counter()
        with torch.inference_mode():
            self._model(input_ids=inputs, use_cache=True, logits_to_keep=1)
        device_probe.synchronise(self._options.device)
        return time.perf_counter() - start

    def generate(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> list[Completion]:
        import torch

        width = max(map(len, prompts))
        pad = min(self._eos, default=0)
        inputs = torch.full((len(prompts), width), pad)
        mask = torch.zeros((len(prompts), width), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            # Padding stands on the left, so that every row's last position is its prompt's last token.
            inputs[row, width - len(prompt) :] = torch.tensor(list(prompt))
            mask[row, width - len(prompt) :] = 1
        with torch.inference_mode():
            output = self._model.generate(
                inputs.to(self._options.device),
                attention_mask=mask.to(self._options.device),
                generation_config=self._greedy(max_new_tokens, stop=True),
            )
        return [self._completion(row) for row in output[:, width:].tolist()]

    def _completion(self, generated: list[int]) -> Completion:
        for place, token in enumerate(generated):
            if token in self._eos:
                return Completion(generated[:place], FinishReason.STOP)
        return Completion(generated, FinishReason.LENGTH)

    def _greedy(self, tokens: int, *, stop: bool) -> Any:
        """Decoding by argmax alone, whatever the checkpoint's own generation config says.

        With `stop` false there is no end-of-sequence token, so exactly `tokens` tokens come out.
        """
        from transformers import GenerationConfig

        eos = sorted(self._eos)
        return GenerationConfig(
            do_sample=False,
            num_beams=1,
            max_new_tokens=tokens,
            eos_token_id=eos if stop and eos else None,
            pad_token_id=eos[0] if eos else 0,
            use_cache=True,
        )

    def _tensors(self) -> Iterator[Any]:
        yield from self._model.parameters()
        yield from self._model.buffers()

    def _linears(self) -> Iterator[Any]:
        """The decoder's linear layers, of whatever class the format brought.

        Found by their place: the leaves of the decoder blocks that hold a matrix or packed weights.
        """
        for name, module in self._model.named_modules():
            is_leaf = not any(True for _ in module.children())
            if ".layers." in name and is_leaf and hasattr(module, "in_features"):
                yield module


class _TokenClock:
    """A `generate` streamer that notes when each token is there.

    `generate` first puts the prompt, then each token after moving it to the host, which waits for the device.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._start = 0.0
        self._prompt_seen = False
        self.token_s: list[float] = []

    def start(self) -> None:
        self._start = time.perf_counter()

    def put(self, value: Any) -> None:
        if not self._prompt_seen:
            self._prompt_seen = True
            return
        device_probe.synchronise(self._device)
        self.token_s.append(time.perf_counter() - self._start)

    def end(self) -> None:
        pass
