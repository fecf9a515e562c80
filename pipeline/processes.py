"""What every worker process has in common."""

from __future__ import annotations

import signal
from collections.abc import Mapping

WORKER_ENVIRONMENT: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "PYTHONUNBUFFERED": "1",
    # GPTQModel sets both where they are not set, so that variants would run under another allocator than the baseline.
    "PYTORCH_ALLOC_CONF": "expandable_segments:True",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
}
"""Workers read local files only, tell no one about it, and number and fill GPUs alike."""


def ending(code: int) -> str:
    """How a process ended, in words, from its exit code (negative: the signal)."""
    if code >= 0:
        return f"the worker ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = ", most often the system out of memory" if name == "SIGKILL" else ""
    return f"the worker was killed by {name}{hint}"
