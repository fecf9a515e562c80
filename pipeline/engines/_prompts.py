"""What is asked of a session, checked before any work."""

from __future__ import annotations

from collections.abc import Sequence

Tokens = Sequence[int]


def require_continuing(prompts: Sequence[Tokens], shared: Tokens, choices: Sequence[Sequence[Tokens]] = ()) -> None:
    """Raise ValueError that tells every prompt which does not continue `shared`, and every missing choice."""
    begin = list(shared)
    problems = []
    for number, prompt in enumerate(prompts):
        if list(prompt[: len(begin)]) != begin:
            problems.append(f"prompt {number} does not begin with the {len(begin)} shared tokens")
        elif len(prompt) == len(begin):
            problems.append(f"prompt {number} has no token after the {len(begin)} shared ones")
    for number, of_prompt in enumerate(choices):
        if not of_prompt:
            problems.append(f"prompt {number} has no choices")
        elif not all(of_prompt):
            problems.append(f"prompt {number} has a choice without tokens")
    if problems:
        raise ValueError("; ".join(problems))


def require_equally_long(prompts: Sequence[Tokens]) -> int:
    """The prompts' common length; raises ValueError where they have none."""
    lengths = sorted({len(prompt) for prompt in prompts})
    if len(lengths) != 1:
        raise ValueError(f"prompts that are answered together must be equally long; their tokens: {lengths}")
    return lengths[0]
