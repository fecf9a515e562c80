"""What the tests of auto_gptq and autoawq run under the toolchain's Python, where the main environment cannot look."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def quantize(job: str, result: str, scales: str, quantizer: str) -> None:
    """Run the worker and write down the scales that autoawq applied to each layer: [[previous, [layers], [scale]]].

    `quantizer` is `ours`, or `library` for autoawq's own class.
    """
    import awq.quantize.quantizer as library

    from pipeline import worker
    from pipeline.quantizers import autoawq

    applied: list[list[Any]] = []
    plain = library.apply_scale

    def recorded(module: Any, scales_list: list[Any], **options: Any) -> None:
        applied.append([[before, list(layers), values.tolist()] for before, layers, values in scales_list])
        plain(module, scales_list, **options)

    library.apply_scale = recorded
    if quantizer == "library":
        autoawq.restoring_quantizer = lambda: library.AwqQuantizer
    worker.main("quantize", job, result)
    Path(scales).write_text(json.dumps(applied))


def logits(checkpoint: str, token_ids: str, out: str) -> None:
    """Float32 logits of a base checkpoint as handed over to transformers 4."""
    import numpy
    import torch
    from transformers import AutoModelForCausalLM

    from pipeline.quantizers import _archived

    with _archived.older_checkpoint(Path(checkpoint)) as folder:
        model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32)
    with torch.no_grad():
        numpy.save(out, model(torch.tensor([json.loads(token_ids)])).logits[0].numpy())


def known_model_types() -> None:
    """Print which model types each package knows, of those that need no code from a repository."""
    from auto_gptq.modeling.auto import GPTQ_CAUSAL_LM_MODEL_MAP
    from awq.models.auto import AWQ_CAUSAL_LM_MODEL_MAP
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    tables = {"auto_gptq": GPTQ_CAUSAL_LM_MODEL_MAP, "autoawq": AWQ_CAUSAL_LM_MODEL_MAP}
    known = {name: sorted(set(table) & set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)) for name, table in tables.items()}
    print(json.dumps(known))


if __name__ == "__main__":
    {"quantize": quantize, "logits": logits, "known_model_types": known_model_types}[sys.argv[1]](*sys.argv[2:])
