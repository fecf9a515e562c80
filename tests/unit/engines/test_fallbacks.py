"""Which kernels do without their format's own arithmetic; the table against the installed packages."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pipeline.engines import _transformers_kernels as kernels
from pipeline.engines.transformers import TransformersSession


def layer(name: str, **attributes: Any) -> Any:
    """A layer of a class of this name."""
    made = type(name, (), {})()
    vars(made).update(attributes)
    return made


def blocks(size: int) -> SimpleNamespace:
    return SimpleNamespace(quant_state=SimpleNamespace(blocksize=size))


@pytest.mark.parametrize(
    ("device", "given", "flagged"),
    [
        ("cpu", layer("Linear"), False),
        ("cpu", layer("TorchLinear"), True),
        ("cpu", layer("AwqTorchLinear"), True),
        ("cpu", layer("TorchAtenLinear", linear_mode=None), False),
        ("cpu", layer("TorchAtenLinear", linear_mode="inference"), False),
        ("cpu", layer("TorchAtenLinear", linear_mode="train"), True),
        ("cpu", layer("TorchAtenAwqLinear", linear_mode="train"), True),
        ("cpu", layer("TorchFusedLinear", linear_mode="inference"), False),
        ("cpu", layer("TorchFusedAwqLinear", linear_mode="train"), True),
        ("cpu", layer("TorchInt8Linear"), True),
        ("cpu", layer("Linear4bit", support_avx512bf16_for_cpu=True), False),
        ("cpu", layer("Linear4bit", support_avx512bf16_for_cpu=False), True),
        ("cuda", layer("Linear"), False),
        ("cuda", layer("MarlinLinear"), False),
        ("cuda", layer("AwqGEMMLinear"), False),
        ("cuda", layer("TorchLinear"), True),
        ("cuda", layer("TritonV2Linear"), True),
        ("cuda", layer("Linear8bitLt", in_features=576), False),
        ("cuda", layer("Linear8bitLt", in_features=577), True),
        ("cuda", layer("Linear4bit", in_features=576, weight=blocks(64)), False),
        ("cuda", layer("Linear4bit", in_features=600, weight=blocks(64)), True),
    ],
)
def test_a_kernel_is_flagged_where_it_works_in_floats(device: str, given: Any, flagged: bool) -> None:
    found = kernels.fallbacks([layer("Linear"), given], device)
    assert set(found) == ({type(given).__name__} if flagged else set())
    assert all(found.values())


def test_one_layer_is_enough_to_flag_its_class() -> None:
    layers = [layer("TorchAtenLinear", linear_mode=mode) for mode in ("inference", "train", "inference")]
    assert set(kernels.fallbacks(layers, "cpu")) == {"TorchAtenLinear"}


def test_the_info_names_the_fallbacks_among_its_kernels(
    session: TransformersSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert session.info().fallback_kernels == {}
    monkeypatch.setattr(kernels, "FALLBACKS", {"cpu": {"Linear": kernels.Fallback("does it by hand")}, "cuda": {}})
    assert session.info().fallback_kernels == {"Linear": "does it by hand"}


@pytest.mark.parametrize("registered", [True, False])
def test_int8_on_a_cpu_hangs_on_the_kernel_that_bitsandbytes_registered(
    monkeypatch: pytest.MonkeyPatch, registered: bool
) -> None:
    asked = []
    monkeypatch.setattr(
        torch._C, "_dispatch_has_kernel_for_dispatch_key", lambda *question: (asked.append(question), registered)[1]
    )
    found = kernels.fallbacks([layer("Linear8bitLt")], "cpu")
    assert asked == [("bitsandbytes::int8_linear_matmul", "CPU")]
    assert bool(found) is not registered


def test_the_registered_kernel_is_the_integer_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the flag says of this machine is what bitsandbytes does here."""
    pytest.importorskip("bitsandbytes")
    calls = []
    product = torch._int_mm
    monkeypatch.setattr(torch, "_int_mm", lambda a, b: (calls.append(a.dtype), product(a, b))[1])
    a, b = (torch.randint(-127, 127, (8, 64), dtype=torch.int8) for _ in range(2))
    result = torch.ops.bitsandbytes.int8_linear_matmul(a, b)
    assert result.tolist() == (a.int() @ b.int().t()).tolist()
    assert bool(calls) is not bool(kernels.fallbacks([layer("Linear8bitLt")], "cpu"))


def sources(package: str, folder: str) -> str:
    found = find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed")
    return "\n".join(
        path.read_text(encoding="utf-8") for path in sorted((Path(found.origin).parent / folder).glob("*.py"))
    )


@pytest.mark.parametrize("device", sorted(kernels.FALLBACKS))
def test_every_class_of_the_table_exists(device: str) -> None:
    """A class renamed by an upgrade must not silently fall out of the table."""
    text = sources("gptqmodel", "nn_modules/qlinear") + sources("bitsandbytes", "nn")
    text += "".join(sources("torchao", f"quantization/quantize_/workflows/{kind}") for kind in ("int8", "float8"))
    for name in kernels.FALLBACKS[device]:
        wrapped = re.fullmatch(r"Linear\[(\w+)\]", name)
        assert re.search(rf"^class {wrapped[1] if wrapped else name}\(", text, re.MULTILINE), name


def test_every_torch_kernel_of_the_formats_is_in_the_table() -> None:
    """Plain-torch classes (`Torch…`, `Awq…Torch…`) are where gptqmodel de-quantizes; those of other formats aside."""
    classes = set(re.findall(r"^class ((?:Awq)?Torch\w*Linear)\(", sources("gptqmodel", "nn_modules/qlinear"), re.M))
    assert classes - {"TorchFP8Linear", "TorchFP4Linear"} == {
        name for name in kernels.FALLBACKS["cpu"] if "Torch" in name
    }


@pytest.mark.parametrize("attribute", ["linear_mode", "support_avx512bf16_for_cpu"])
def test_what_the_table_asks_of_a_layer_exists(attribute: str) -> None:
    assert f"self.{attribute} = " in sources("gptqmodel", "nn_modules/qlinear") + sources("bitsandbytes", "nn")
