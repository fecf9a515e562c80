"""What is asked of a model in the speed benchmark: workloads, each at one or several concurrencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict

from pipeline.records import WorkloadPrompt
from pipeline.residents import Turn


class Sweep(BaseModel):
    """One workload at several concurrencies."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workload: str
    concurrency: list[int]
    pairs: int


@dataclass(frozen=True)
class Level:
    """One workload at one concurrency."""

    workload: str
    concurrency: int
    prompt: tuple[int, ...]
    prompt_sha256: str
    output_tokens: int
    pairs: int
    """Turns of each side in each pair of processes."""
    prefill: bool
    """Time the forward pass over the prompt alone as well."""
    deciding: bool = False
    """The one whose speed-up is measured to precision."""

    @property
    def key(self) -> tuple[str, int]:
        return self.workload, self.concurrency

    @property
    def tokens(self) -> int:
        """In flight at the end of a turn."""
        return self.concurrency * (len(self.prompt) + self.output_tokens)

    def turn(self, *, counts: bool) -> Turn:
        """Each stream's prompt is the same text begun at another place: equally long, but not the same work twice.

        A turn that only warms up need not time the prefill alone.
        """
        starts = [stream * len(self.prompt) // self.concurrency for stream in range(self.concurrency)]
        return Turn(
            prompts=[list(self.prompt[start:] + self.prompt[:start]) for start in starts],
            output_tokens=self.output_tokens,
            prefill=self.prefill and counts,
        )


def plan(prompts: Sequence[WorkloadPrompt], deciding: str, sweep: Sweep) -> list[Level]:
    """All levels, from small to large. A level of the sweep that is a workload's own is not measured twice."""
    own = [
        Level(
            workload=prompt.workload,
            concurrency=prompt.concurrency,
            prompt=tuple(prompt.token_ids),
            prompt_sha256=prompt.prompt_sha256,
            output_tokens=prompt.output_tokens,
            pairs=prompt.pairs,
            prefill=True,
            deciding=prompt.workload == deciding,
        )
        for prompt in prompts
    ]
    levels = {level.key: level for level in own}
    for level in own if sweep.concurrency else ():
        if level.workload == sweep.workload:
            for concurrency in sweep.concurrency:
                swept = replace(level, concurrency=concurrency, pairs=sweep.pairs, prefill=False, deciding=False)
                levels.setdefault(swept.key, swept)
    return sorted(levels.values(), key=lambda level: level.tokens)
