"""Where the base model comes from: one file per kind of source; the file name is `model.source.kind`.

Each module defines `Settings` (a frozen pydantic model of the other keys under `model.source`) and:

- `describe(settings)`: one line for reports, such as `hub:HuggingFaceTB/SmolLM2-135M@abc`.
- `revision(settings)`: what pins the content.
- `problems(settings)`: mistakes that can be told in seconds and offline.
- `checkpoint_folder(settings)`: where its layer shapes can be read before `fetch`, or None.
- `fetch(settings, out)`: write an fp16 safetensors checkpoint with tokenizer and chat template into `out`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict


class SourceSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def save_as_fp16(source: str | Path, out: Path, **load_options: Any) -> None:
    """Load a causal language model and its tokenizer with transformers and save both, weights in float16."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float16, **load_options)
    if getattr(model.config, "quantization_config", None) is not None:
        del model.config.quantization_config
    model.save_pretrained(out)
    load_options.pop("quantization_config", None)
    load_options.pop("use_safetensors", None)
    AutoTokenizer.from_pretrained(source, **load_options).save_pretrained(out)
