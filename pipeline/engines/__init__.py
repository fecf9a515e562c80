"""One file per engine; the file name is the name used in params.yaml.

Each module defines:

- `FORMATS`: the artifact formats it loads.
- `PACKAGES`: distributions whose versions decide the result; recorded with every reading.
- `TOOLCHAIN`: None, or the environment apart from the main one that its workers run in; as of a quantizer.
- `TORCH_ALLOCATOR`: whether the memory that it takes on a GPU is of torch's allocator, which then tells its peaks; else
  the driver is asked what the process has.
- `QUANTIZES_AT_LOAD`: whether it does what checkpoint.QUANTIZATION_AT_LOAD tells: an artifact may hold unquantized
  weights that are to be quantized each time they are loaded.
- `load(artifact, options) -> Session`: a model ready to answer, on the device asked for. Whatever its kernels do once
  at first use is done: what the session tells of itself is the same before and after answering.

Engines take and give token ids; they never tokenize. Runs load artifacts through `load` here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipeline import checkpoint, plugins
from pipeline.quality_records import FinishReason
from pipeline.readings import KvCache, RequestReading
from pipeline.records import EngineInfo


@dataclass(frozen=True)
class EngineOptions:
    device: str
    """`cpu` or `cuda`."""
    compute_dtype: str
    """Name of the torch dtype."""
    threads: int
    """CPU threads; used on the CPU only."""


@dataclass(frozen=True)
class Completion:
    token_ids: list[int]
    """What was generated, without the end-of-sequence token and padding."""
    finish_reason: FinishReason


@dataclass(frozen=True)
class Question:
    """A prompt and the answers that may follow it, as token ids."""

    prompt: list[int]
    choices: list[list[int]]


class Session(Protocol):
    def info(self) -> EngineInfo:
        """What runs the model. `settings` is empty: whoever set the process up fills it."""

    def weight_bytes(self) -> int:
        """Bytes of all parameters and buffers as loaded; a tensor shared by two names counts once."""

    def decode_weight_bytes(self) -> int:
        """Bytes of the weights that decoding one token reads: all, but for an input embedding that nothing else uses.

        One row of such a table is read, which is too little to count.
        """

    def misplaced(self) -> list[str]:
        """Names of parameters that are not on the device asked for; none in a valid run."""

    def broken_weights(self) -> dict[str, str] | None:
        """Name → what a tensor holds that no healthy weight does: `NaN or infinity`, or `nothing but zeros`.

        None where the engine cannot look at its weights.
        """

    def answer(self, prompts: Sequence[Sequence[int]], output_tokens: int) -> RequestReading:
        """Answer the prompts together, each greedily with exactly `output_tokens` tokens; `prefill_s` stays None.

        Raises:
            ValueError: the prompts are not equally long.
        """

    def prefill(self, prompts: Sequence[Sequence[int]]) -> float:
        """Seconds from start to the next-token logits of all prompts, device synchronised.

        Raises:
            ValueError: the prompts are not equally long.
        """

    def kv_cache(self, prompt: Sequence[int]) -> KvCache:
        """Keys and values that a pass over the prompt leaves, by the model's config and as measured.

        Raises:
            RuntimeError: the model keeps something else, or its config does not tell the shape.
        """

    def generate(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, shared: Sequence[int] = ()
    ) -> list[Completion]:
        """Answer a batch greedily, each until end of sequence or `max_new_tokens`; rows that ended cost no more.

        Every prompt begins with the tokens `shared`, whose keys and values are computed once and kept for the next
        call that names the same.

        Raises:
            ValueError: a prompt does not begin with `shared`, or has nothing after it.
        """

    def choice_logprobs(self, questions: Sequence[Question], shared: Sequence[int] = ()) -> list[list[float]]:
        """Sum of the natural log-probabilities (float32) of each choice's tokens after its prompt, per question.

        Each prompt is read once for all its choices; `shared` as in `generate`.

        Raises:
            ValueError: as `generate`, or a question has no choices or an empty one.
        """

    def next_token_logits(self, token_ids: Sequence[int]) -> Any:
        """Float32 numpy array [tokens, vocabulary]: after each token, the logits of the next."""


def load(name: str, artifact: Path, options: EngineOptions) -> Session:
    """The artifact, loaded by the engine of that name.

    Raises:
        NotQuantized: it is to be quantized each time it is loaded, and this engine does not do that.
        Exception: whatever the engine's own `load` raises.
    """
    engine = plugins.load("pipeline.engines", name)
    if not engine.QUANTIZES_AT_LOAD and (why := checkpoint.read_manifest(artifact).at_load):
        raise NotQuantized(
            f"engine {name!r} does not quantize weights while it loads them, and this artifact holds unquantized ones "
            f"for that ({why}); measure it with another engine"
        )
    session: Session = engine.load(artifact, options)
    return session


class NotQuantized(Exception):
    """The engine would measure unquantized weights in place of the variant's."""


def torch_allocator(name: str) -> bool:
    used: bool = plugins.load("pipeline.engines", name).TORCH_ALLOCATOR
    return used


def misplaced_reason(names: Sequence[str], device: str) -> str:
    """Why a run is INVALID whose session named `misplaced` parameters."""
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"{len(names)} parameters are not on {device}: {shown}"
