"""llama.cpp's log: the only place where it says what its C interface does not tell."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from functools import cache
from typing import Any

MIB = 2**20
DEBUG, CONTINUED = 1, 5
"""Levels of ggml.h, `ggml_log_level`; the latter is of what goes on with a line."""
_BUFFER = re.compile(r"(\S+) model buffer size = +([\d.]+) MiB")
_FLASH = re.compile(r"Flash Attention (enabled|not supported, set to disabled)")


class Log:
    """The last lines that llama.cpp said in this process; they go to the worker's output too."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=2000)
        self.callback: Any = None
        """What llama.cpp calls; it must live as long as llama.cpp may."""
        self._begun = ""
        self._level = 0

    def __call__(self, level: int, text: bytes, user_data: Any) -> None:
        """Take a piece of the log; a line may come in several."""
        if level != CONTINUED:
            self._level = level
        if self._level == DEBUG:
            return
        *lines, self._begun = (self._begun + text.decode(errors="replace")).split("\n")
        for line in filter(None, lines):
            self.lines.append(line)
            print(line, flush=True)

    @property
    def last_line(self) -> str:
        return self.lines[-1] if self.lines else "it gave no reason"


@cache
def process_log() -> Log:
    """llama.cpp has one log per process; it is taken over at the first call, for good."""
    import llama_cpp

    log = Log()
    log.callback = llama_cpp.llama_log_callback(log)
    llama_cpp.llama_log_set(log.callback, None)
    return log


def attention(said: Iterable[str]) -> str:
    """How llama.cpp said that it computes attention."""
    found = [match[1] for line in said if (match := _FLASH.search(line))]
    if not found:
        return "llama.cpp"
    return "llama.cpp flash attention" if found[-1] == "enabled" else "llama.cpp without flash attention"


def on_host(said: Iterable[str], embedding_bytes: int) -> list[str]:
    """Buffers of weights that llama.cpp said it keeps off the GPU, where they hold more than the input embedding.

    That one it always leaves on the host, since one row is read per token (src/llama-model.cpp, `load_tensors`).
    """
    buffers = [(match[1], float(match[2])) for line in said if (match := _BUFFER.search(line))]
    host = [(name, size) for name, size in buffers if not re.fullmatch(r"CUDA\d+", name)]
    if sum(size for _, size in host) * MIB <= embedding_bytes + MIB:
        return []
    return [f"{size:.0f} MiB in {name}" for name, size in host]
