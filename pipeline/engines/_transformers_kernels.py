"""What a model's linear layers hold and how they multiply: kernel classes, their fallbacks, bytes as loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fallback:
    """How a kernel class does without its format's own arithmetic, and whether a layer of that class does."""

    words: str
    applies: Callable[[Any], bool] = lambda layer: True


def _turned_to_training(layer: Any) -> bool:
    """The first forward pass of the int4pack classes settles it: `linear_mode` is then `inference` or `train`."""
    return bool(layer.linear_mode == "train")


def _no_integer_product(layer: Any) -> bool:
    """Whether bitsandbytes found no CPU kernel to register: it wants AVX-512 (and torch 2.6) for `torch._int_mm`."""
    import torch

    return not torch._C._dispatch_has_kernel_for_dispatch_key("bitsandbytes::int8_linear_matmul", "CPU")


def _keeps_activations(layer: Any) -> bool:
    """torchao's weights carry how activations are quantized; those without leave activations in floats."""
    return layer.weight.act_quant_kwargs is None


DEQUANTIZES = "turns the whole matrix back to floats at each pass, then multiplies in floats"
INT8_AGAIN = "holds the 4-bit weights as int8, rounded anew with one scale per output"
TORCHAO: Mapping[str, Fallback] = {
    # torchao 0.18.0, quantize_/workflows, int8/int8_tensor.py and float8/float8_tensor.py: `aten.linear`
    "Linear[Int8Tensor]": Fallback(DEQUANTIZES, _keeps_activations),
    "Linear[Float8Tensor]": Fallback(DEQUANTIZES, _keeps_activations),
}
FALLBACKS: Mapping[str, Mapping[str, Fallback]] = {
    "cpu": {
        # gptqmodel 7.6.0, nn_modules/qlinear: torch.py `_forward_eager`, torch_awq.py `forward`
        "TorchLinear": Fallback(DEQUANTIZES),
        "AwqTorchLinear": Fallback(DEQUANTIZES),
        # torch_aten_kernel.py, torch_fused.py and both with _awq: `_weight_int4pack_mm_for_cpu` on the packed weights,
        # but de-quantized where the first pass was made in training mode, with gradients, or in a torch without that
        # operation
        "TorchAtenLinear": Fallback(DEQUANTIZES, _turned_to_training),
        "TorchAtenAwqLinear": Fallback(DEQUANTIZES, _turned_to_training),
        "TorchFusedLinear": Fallback(DEQUANTIZES, _turned_to_training),
        "TorchFusedAwqLinear": Fallback(DEQUANTIZES, _turned_to_training),
        # torch_int8.py, torch_int8_awq.py: `_requantize_to_int8`, then `_weight_int8pack_mm`
        "TorchInt8Linear": Fallback(INT8_AGAIN),
        "TorchInt8AwqLinear": Fallback(INT8_AGAIN),
        # bitsandbytes 0.50.2, backends/cpu/ops.py and backends/default/ops.py: `int8_linear_matmul`
        "Linear8bitLt": Fallback("turns int8 to float32 at each pass, then multiplies in floats", _no_integer_product),
        # nn/modules.py `Linear4bit.forward` packs the weights for a fused kernel where the CPU has AVX512_BF16;
        # elsewhere backends/default/ops.py `gemm_4bit`
        "Linear4bit": Fallback(DEQUANTIZES, lambda layer: not layer.support_avx512bf16_for_cpu),
        **TORCHAO,
    },
    "cuda": {
        # gptqmodel 7.6.0, nn_modules/qlinear: torch.py and torch_awq.py as above; tritonv2.py and
        # triton_utils/dequant.py `quant_matmul`. Marlin, Machete, Swordfish, ExLlama, BitBLAS and the AWQ GEMM and GEMV
        # classes decode on packed weights; AwqGEMMLinear de-quantizes beyond 1024 rows, in long prefills.
        "TorchLinear": Fallback(DEQUANTIZES),
        "AwqTorchLinear": Fallback(DEQUANTIZES),
        "TritonV2Linear": Fallback(DEQUANTIZES),
        # w4a_floatx.py, w4a_nvfp4.py `post_init`
        "W4AFP8Linear": Fallback("holds the 4-bit weights as FP8, and rounds activations to it"),
        "W4ANVFP4Linear": Fallback("holds the 4-bit weights as NVFP4, and rounds activations to it"),
        # bitsandbytes 0.50.2, backends/cuda/ops.py: `_int8_linear_matmul_impl`, cuBLASLt wants multiples of 4
        "Linear8bitLt": Fallback(
            "turns int8 to float32 at each pass, then multiplies in floats", lambda layer: layer.in_features % 4 != 0
        ),
        # the same, `gemm_4bit`; with whole blocks it is fused for few rows, as in decoding
        "Linear4bit": Fallback(DEQUANTIZES, lambda layer: layer.in_features % layer.weight.quant_state.blocksize != 0),
        **TORCHAO,
    },
}
"""Device → kernel name → what it does instead of multiplying in its own format. Kernels not named here do that."""


def name(layer: Any) -> str:
    """The layer's class; where a plain class multiplies by a wrapped weight, as torchao's do, that one's class too."""
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    own, weight = type(layer).__name__, getattr(layer, "weight", None)
    wrapped = isinstance(weight, torch.Tensor) and is_traceable_wrapper_subclass(weight)
    return f"{own}[{type(weight).__name__}]" if wrapped else own


def fallbacks(layers: Sequence[Any], device: str) -> dict[str, str]:
    """Kernels among these layers' that do without their format's arithmetic on the device → what they do instead."""
    found = {}
    for layer in layers:
        kernel = name(layer)
        fallback = FALLBACKS[device].get(kernel)
        if fallback is not None and fallback.applies(layer):
            found[kernel] = fallback.words
    return dict(sorted(found.items()))


def weight_bytes(modules: Iterable[Any]) -> int:
    """Bytes of the modules' own parameters and buffers with the scales they need, shared memory counted once."""
    tensors = [part for module in modules for tensor in _held(module) for part in _parts(tensor)]
    return sum({tensor.data_ptr(): tensor.nbytes for tensor in tensors if tensor.nbytes}.values())


def _held(module: Any) -> Iterator[Any]:
    """Parameters, buffers, and what bitsandbytes keeps beside them: `quant_state` of 4-bit layers, `state` of 8-bit."""
    yield from module.parameters(recurse=False)
    yield from module.buffers(recurse=False)
    for _, tensor in beside(module):
        yield tensor


def beside(module: Any) -> Iterator[tuple[str, Any]]:
    """Names and tensors that bitsandbytes keeps in a layer that are neither parameters nor buffers."""
    for attribute in ("quant_state", "state"):
        yield from _inside(getattr(module, attribute, None))


def _inside(state: Any) -> Iterator[tuple[str, Any]]:
    """Tensors among the attributes of a state; with double quantization one of them is a state of the same class."""
    import torch

    for name, value in vars(state).items() if hasattr(state, "__dict__") else ():
        if isinstance(value, torch.Tensor):
            yield name, value
        elif type(value) is type(state):
            yield from ((f"{name}.{inner}", tensor) for inner, tensor in _inside(value))


def _parts(tensor: Any) -> Iterator[Any]:
    """The tensors that hold the data: those inside a wrapper such as torchao's, else the tensor itself."""
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    inside, _ = tensor.__tensor_flatten__()
    for attribute in inside:
        yield from _parts(getattr(tensor, attribute))
