"""Greedy answers, likelihoods of choices, and logits of a transformers model, with no token read twice.

Answers are those of the model's own `generate`, but rows that have ended leave the batch, and what all prompts begin
with is read once and kept. Prompts and choices are read in packs where the model's layers allow it, else in rows padded
on the left.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.engines import Completion, Question
from pipeline.engines._prompts import require_continuing
from pipeline.engines._transformers_packing import Pack, Tokens, packs
from pipeline.quality_records import FinishReason

PACK_TOKENS = {"cpu": 512, "cuda": 4096}
"""Tokens of several prompts that are read in one row. Attention grows with their square, while from here on more make
the products on a CPU no faster; a GPU wants more at a time."""


class Decoder:
    """Answers for one loaded model, computed on its device and in its dtype."""

    def __init__(self, model: Any, device: str, eos: frozenset[int]) -> None:
        self._model = model
        self._device = device
        self._eos = eos
        self._config = model.config.get_text_config(decoder=True)
        accepted = inspect.signature(model.forward).parameters
        # transformers 5.24 calls it `cache`, earlier ones `past_key_values`.
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"
        self._takes_positions = "position_ids" in accepted
        self._packs = self._takes_positions and self._sees_all()
        self._kept: tuple[tuple[int, ...], Any] | None = None
        """The shared tokens of the last call that named some, and their cache."""

    def generate(self, prompts: Sequence[Tokens], max_new_tokens: int, shared: Tokens) -> list[Completion]:
        """As `Session.generate`."""
        import torch

        require_continuing(prompts, shared)
        if not prompts:
            return []
        with torch.inference_mode():
            rows = self._packed(prompts, shared) if self._packs else self._padded(prompts)
            return self._greedy(rows, max_new_tokens)

    def choice_logprobs(self, questions: Sequence[Question], shared: Tokens) -> list[list[float]]:
        """As `Session.choice_logprobs`."""
        import torch

        require_continuing(
            [question.prompt for question in questions], shared, [question.choices for question in questions]
        )
        if not questions:
            return []
        with torch.inference_mode():
            return self._packed_choices(questions, shared) if self._packs else self._padded_choices(questions)

    def next_token_logits(self, token_ids: Tokens) -> Any:
        """As `Session.next_token_logits`."""
        import torch

        with torch.inference_mode():
            output = self._model(input_ids=self._tensor([list(token_ids)]), use_cache=False)
            return output.logits[0].float().cpu().numpy()

    def _greedy(self, rows: _Rows, limit: int) -> list[Completion]:
        going = list(range(len(rows.logits)))
        answers: list[list[int]] = [[] for _ in going]
        for remaining in reversed(range(limit)):
            # `generate` compares logits as float32 too (transformers 5.24, generation/utils.py `_sample`).
            tokens = rows.logits.float().argmax(-1)
            chosen = tokens.tolist()
            kept = [row for row, token in enumerate(chosen) if token not in self._eos]
            for row in kept:
                answers[going[row]].append(chosen[row])
            going = [going[row] for row in kept]
            if not going or not remaining:
                break
            if len(kept) < len(chosen):
                rows.select(self._tensor(kept))
                tokens = self._tensor([chosen[row] for row in kept])
            rows.read(tokens[:, None])
        return [
            Completion(answer, FinishReason.LENGTH if number in going else FinishReason.STOP)
            for number, answer in enumerate(answers)
        ]

    def _packed(self, prompts: Sequence[Tokens], shared: Tokens) -> _Rows:
        """Rows of prompts that were read in packs: the shared tokens, padding, the rest of each prompt."""
        import torch

        start = len(shared)
        rests = [prompt[start:] for prompt in prompts]
        width = max(map(len, rests))
        padding = [width - len(rest) for rest in rests]
        logits, caches = [], []
        # The keys of all packs stand one behind the other; `source` says which of them each row takes.
        source: list[list[int]] = []
        behind = start
        for pack in packs(((rest, ()) for rest in rests), start, PACK_TOKENS[self._device]):
            output, cache = self._read(pack, shared, [places[-1] for places in pack.prompts])
            logits.append(output)
            caches.append(cache)
            for places in pack.prompts:
                own = range(behind + places.start, behind + places.stop)
                source.append([*range(start), *[0] * (width - len(own)), *own])
            behind += len(pack.token_ids)
        return _Rows(
            self._call,
            _rearranged(caches, start, self._tensor(source)),
            self._mask(padding, start, start + width),
            self._tensor([[len(prompt)] for prompt in prompts]),
            torch.cat(logits),
        )

    def _padded(self, prompts: Sequence[Tokens]) -> _Rows:
        """Rows of prompts that were read side by side, with padding before each."""
        import torch

        width = max(map(len, prompts))
        padding = [width - len(prompt) for prompt in prompts]
        ids = self._tensor([[0] * pad + list(prompt) for pad, prompt in zip(padding, prompts, strict=True)])
        positions = (torch.arange(width, device=self._device) - self._tensor(padding)[:, None]).clamp(min=0)
        cache, mask = self._new_cache(), self._mask(padding, 0, width)
        logits = self._call(ids, positions, mask, cache, 1)
        return _Rows(self._call, cache, mask, positions[:, -1:] + 1, logits[:, -1])

    def _packed_choices(self, questions: Sequence[Question], shared: Tokens) -> list[list[float]]:
        start = len(shared)
        rests = ((question.prompt[start:], question.choices) for question in questions)
        found = []
        for pack in packs(rests, start, PACK_TOKENS[self._device]):
            asked = [token for choices in pack.asked for choice in choices for token in choice]
            places = sorted({place for place, _ in asked})
            logits, _ = self._read(pack, shared, places)
            rows = {place: row for row, place in enumerate(places)}
            logprobs = logits.float().log_softmax(-1)[
                [rows[place] for place, _ in asked], [token for _, token in asked]
            ]
            of_token = iter(logprobs.tolist())
            found += [[sum(next(of_token) for _ in choice) for choice in choices] for choices in pack.asked]
        return found

    def _padded_choices(self, questions: Sequence[Question]) -> list[list[float]]:
        """In two passes: the prompts, then behind copies of their keys all choices but their first tokens."""
        import torch

        rows = self._padded([question.prompt for question in questions])
        pairs = [(number, choice) for number, question in enumerate(questions) for choice in question.choices]
        owners = [number for number, _ in pairs]
        sums = rows.logits.float().log_softmax(-1)[owners, [choice[0] for _, choice in pairs]]
        longest = max(len(choice) for _, choice in pairs)
        if longest > 1:
            rows.select(self._tensor(owners))
            ids = self._tensor([list(choice) + [0] * (longest - len(choice)) for _, choice in pairs])
            logprobs = rows.read(ids[:, :-1]).float().log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]
            following = self._tensor([[len(choice) - 1] for _, choice in pairs])
            padding = torch.arange(longest - 1, device=self._device) >= following
            sums = sums + logprobs.masked_fill(padding, 0).sum(1)
        of_choice = iter(sums.tolist())
        return [[next(of_choice) for _ in question.choices] for question in questions]

    def _read(self, pack: Pack, shared: Tokens, places: Sequence[int]) -> tuple[Any, Any]:
        """The logits [places, vocabulary] of a pack behind the shared tokens, and the cache of both."""
        cache = self._new_cache()
        if shared:
            # A layer takes in tokens by replacing its tensors, so that those of the kept one stay as they are.
            cache.layers = [copy.copy(layer) for layer in self._cache_of(shared).layers]
        dtype = self._model.get_input_embeddings().weight.dtype
        logits = self._call(
            self._tensor([pack.token_ids]),
            self._tensor([pack.positions]),
            pack.mask(dtype, self._device),
            cache,
            self._tensor(places),
        )
        return logits[0], cache

    def _cache_of(self, shared: Tokens) -> Any:
        """The cache of the shared tokens, of the last call where it named the same."""
        if self._kept is None or self._kept[0] != tuple(shared):
            self._kept = None
            cache = self._new_cache()
            self._call(self._tensor([list(shared)]), self._tensor([list(range(len(shared)))]), None, cache, 1)
            self._kept = tuple(shared), cache
        return self._kept[1]

    def _call(self, ids: Any, positions: Any, mask: Any | None, cache: Any, kept: Any) -> Any:
        """Logits [rows, places, vocabulary] at the last `kept` places, all for 0, or at those places where a tensor."""
        named = {"position_ids": positions} if self._takes_positions else {}
        return self._model(
            input_ids=ids,
            attention_mask=mask,
            use_cache=True,
            logits_to_keep=kept,
            **named,
            **{self._cache_name: cache},
        ).logits

    def _mask(self, padding: Sequence[int], before: int, tokens: int) -> Any | None:
        """Mask [rows, tokens] of rows with padding after their first `before` tokens; None where nothing is padded."""
        import torch

        if not any(padding):
            return None
        places = torch.arange(tokens, device=self._device)
        return ((places < before) | (places >= before + self._tensor(padding)[:, None])).long()

    def _new_cache(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self._config)

    def _sees_all(self) -> bool:
        """Whether every layer attends to the keys of all tokens that a mask of our own leaves.

        A recurrent state, or a window of the last keys, would take in what the mask hides, and ALiBi counts places in
        the row; of the models with ALiBi only Falcon takes positions.
        """
        from transformers.cache_utils import DynamicLayer

        return (
            self._model.config._attn_implementation in ("sdpa", "eager")
            and all(type(layer) is DynamicLayer for layer in self._new_cache().layers)
            and not getattr(self._config, "alibi", False)
        )

    def _tensor(self, values: Any) -> Any:
        import torch

        return torch.tensor(values, device=self._device)


@dataclass
class _Rows:
    """Prompts side by side, read up to their ends, which stand in one column."""

    call: Callable[[Any, Any, Any | None, Any, Any], Any]
    """`Decoder._call`"""
    cache: Any
    mask: Any | None
    """[rows, tokens], 0 on padding; None where nothing is padded."""
    positions: Any
    """[rows, 1], of the tokens to be read next."""
    logits: Any
    """[rows, vocabulary], of the tokens to come next."""

    def read(self, ids: Any) -> Any:
        """Take in tokens [rows, tokens]; the logits [rows, tokens, vocabulary] after each."""
        import torch

        if self.mask is not None:
            self.mask = torch.cat([self.mask, torch.ones_like(ids)], dim=1)
        positions = self.positions + torch.arange(ids.shape[1], device=ids.device)
        logits = self.call(ids, positions, self.mask, self.cache, 0)
        self.positions = positions[:, -1:] + 1
        self.logits = logits[:, -1]
        return logits

    def select(self, rows: Any) -> None:
        """Go on with these rows alone, in this order; a row may come several times."""
        self.cache.reorder_cache(rows)
        self.positions = self.positions[rows]
        self.logits = self.logits[rows]
        if self.mask is not None:
            self.mask = self.mask[rows]


def _rearranged(caches: Sequence[Any], start: int, source: Any) -> Any:
    """One cache of rows from caches of one row each that continue the same `start` tokens.

    `source` [rows, tokens] holds places in all their tokens one behind the other, the start counted once.
    """
    import torch

    def rows(tensors: list[Any]) -> Any:
        everything = torch.cat([tensors[0], *(tensor[:, :, start:] for tensor in tensors[1:])], dim=2)
        return everything[0][:, source].transpose(0, 1)

    joined = caches[0]
    for number, layer in enumerate(joined.layers):
        layer.keys = rows([cache.layers[number].keys for cache in caches])
        layer.values = rows([cache.layers[number].values for cache in caches])
    return joined
