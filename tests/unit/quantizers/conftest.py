"""A tiny base model, loud enough that its quantization can be told in what it says, and the quantizers run on it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from unit.quantizers.made import Made, Make

from pipeline import checkpoint, plugins
from pipeline.quantizers import QuantizeJob


@pytest.fixture(scope="session")
def base(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with eightfold weights: fresh ones hardly look back and repeat the prompt's last token."""
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path_factory.mktemp("base") / "model"))
    tensors = load_file(folder / "model.safetensors")
    louder = {name: tensor * 8 if "_proj" in name else tensor for name, tensor in tensors.items()}
    save_file(louder, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.fixture(scope="session")
def make(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    def made(quantizer: str, **settings: Any) -> Made:
        module = plugins.load("pipeline.quantizers", quantizer)
        # Read when the package is first imported, as in a worker of its own.
        os.environ.update(module.ENVIRONMENT)
        missing = set(module.PACKAGES) - set(checkpoint.package_versions(module.PACKAGES))
        if missing:
            pytest.skip(f"not installed: {', '.join(sorted(missing))}")
        out = tmp_path_factory.mktemp(quantizer)
        job = QuantizeJob(
            base=base,
            out=out,
            settings=module.Settings(**settings),
            calibration=[],
            device="cpu",
            compute_dtype="bfloat16",
            seed=0,
        )
        return Made(out, module.quantize(job))

    return made
