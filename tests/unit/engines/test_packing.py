"""Rows of several prompts: worked by hand."""

from __future__ import annotations

import pytest
import torch

from pipeline.engines._transformers_packing import Asked, Pack, packs


def packed() -> Pack:
    """After two shared tokens: a prompt of two tokens with choices of three and one tokens, then a prompt of one."""
    pack = Pack(start=2)
    pack.add([10, 11], [[20, 21, 22], [30]])
    pack.add([12], [[40, 41]])
    return pack


def test_tokens_stand_behind_each_other_and_count_from_their_prompts_beginning() -> None:
    pack = packed()
    assert pack.token_ids == [10, 11, 20, 21, 12, 40]
    assert pack.positions == [2, 3, 4, 5, 2, 3]
    assert pack.prompts == [range(2), range(4, 5)]


def test_each_token_of_a_choice_is_asked_after_the_one_before_it() -> None:
    assert packed().asked == [
        [[Asked(1, 20), Asked(2, 21), Asked(3, 22)], [Asked(1, 30)]],
        [[Asked(4, 40), Asked(5, 41)]],
    ]


def test_a_token_sees_the_start_its_prompt_and_its_choice() -> None:
    pack = Pack(start=1)
    pack.add([10, 11], [[20, 21], [30, 31, 32]])
    pack.add([12], [])
    mask = pack.mask(torch.float32, "cpu")
    assert mask is not None
    assert mask.shape == (1, 1, 6, 7)
    assert set(mask.unique().tolist()) == {0.0, torch.finfo(torch.float32).min}
    assert (mask[0, 0] == 0).int().tolist() == [
        [1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],  # the first choice
        [1, 1, 1, 0, 1, 0, 0],  # the second
        [1, 1, 1, 0, 1, 1, 0],
        [1, 0, 0, 0, 0, 0, 1],  # the next prompt
    ]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_mask_is_of_the_dtype_asked_for(dtype: torch.dtype) -> None:
    mask = packed().mask(dtype, "cpu")
    assert mask is not None
    assert mask.dtype is dtype
    assert mask.isfinite().all()


@pytest.mark.parametrize("choices", [[], [[5]], [[5], [6]]])
def test_one_prompt_whose_choices_are_not_read_needs_no_mask(choices: list[list[int]]) -> None:
    pack = Pack(start=3)
    pack.add([10, 11], choices)
    assert pack.mask(torch.float32, "cpu") is None


def test_packs_are_full_but_hold_any_single_prompt() -> None:
    prompts = [([1, 2], []), ([3, 4], [[5, 6, 7]]), ([8], []), (list(range(9)), []), ([9], [[1], [2]])]
    assert [[len(places) for places in pack.prompts] for pack in packs(prompts, 0, 6)] == [[2, 2], [1], [9], [1]]
    assert [len(pack.token_ids) for pack in packs(prompts, 0, 6)] == [6, 1, 9, 1]
    assert list(packs([], 0, 6)) == []
