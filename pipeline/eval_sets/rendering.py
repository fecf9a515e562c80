"""Items as the token ids that every variant gets: rendered and tokenized once.

In the chat format the model's chat template is applied once, with worked examples as earlier turns. In the text format
the parts stand one after another as lm-eval lays them out: system text, worked examples (prompt, space, answer) and
item, with a blank line between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from pipeline import store
from pipeline.errors import UserError
from pipeline.eval_sets import template as templates
from pipeline.eval_sets.card import DOCUMENT, Card, Format, read_card
from pipeline.eval_sets.items import Item, read_documents, read_items
from pipeline.quality_records import Choice, ItemPrompt
from pipeline.tokenizer import Message, Tokenizer

BY_LIKELIHOOD = "multiple_choice"
"""The scorer whose items are answered by the likelihood of their choices."""


def tokenize(name: str, tokenizer: Tokenizer, context_length: int) -> list[ItemPrompt]:
    """Every item as the token ids that all variants get, in file order.

    An item whose prompt and answer exceed the context is marked, not cut.

    Raises:
        UserError: the set is faulty, or the model has no chat template that takes its messages.
    """
    card, items, documents = read_card(name), read_items(name), read_documents(name)
    try:
        return [_item_prompt(card, item, documents, tokenizer, context_length) for item in items]
    except UserError as error:
        raise UserError(f"eval set {name}: {problem}" for problem in error.problems) from None


def texts(name: str) -> dict[str, str]:
    """What each item itself brings of what the model reads, documents included, by item id; for overlap checks."""
    card, documents = read_card(name), read_documents(name)
    return {item.id: "\n".join(m["content"] for m in _turns(card, item, documents)) for item in read_items(name)}


def shown_prompt(card: Card, item: Item) -> str:
    """The user's last message for people to read; a document stands as its name."""
    named = {item.document: f"[{item.document}]"} if item.document else {}
    return _turns(card, item, named)[-1]["content"]


@dataclass(frozen=True)
class _Tokens:
    prompt: list[int]
    choices: list[list[int]]


def _item_prompt(
    card: Card, item: Item, documents: Mapping[str, str], tokenizer: Tokenizer, context_length: int
) -> ItemPrompt:
    category = card.categories[item.category]
    choices = item.target["choices"] if category.scorer == BY_LIKELIHOOD else []
    tokens = _LAYOUTS[card.format](card, item, documents, tokenizer, choices)
    if not all(tokens.choices):
        raise UserError(f"item {item.id!r}: the tokenizer leaves nothing of a choice in {choices}; reword it")
    answer_tokens = max(map(len, tokens.choices), default=category.max_new_tokens)
    return ItemPrompt(
        item_id=item.id,
        category=item.category,
        critical=item.critical,
        cluster=item.cluster,
        weight=category.weight,
        scorer=category.scorer,
        target=item.target,
        max_new_tokens=category.max_new_tokens,
        prompt=shown_prompt(card, item),
        token_ids=tokens.prompt,
        prompt_sha256=store.sha256_json([tokens.prompt, tokens.choices] if choices else tokens.prompt),
        choices=[
            Choice(text=text, token_ids=ids, bytes=len(text.encode()))
            for text, ids in zip(choices, tokens.choices, strict=True)
        ],
        over_context=len(tokens.prompt) + answer_tokens > context_length,
    )


def _chat(
    card: Card, item: Item, documents: Mapping[str, str], tokenizer: Tokenizer, choices: Sequence[str]
) -> _Tokens:
    rendered = tokenizer.render(_messages(card, item, documents), add_generation_prompt=True)
    return _split(tokenizer.rendered(rendered), [tokenizer.rendered(rendered + choice) for choice in choices])


def _text(
    card: Card, item: Item, documents: Mapping[str, str], tokenizer: Tokenizer, choices: Sequence[str]
) -> _Tokens:
    parts = [card.system] if card.system else []
    parts += [f"{_shot_prompt(card, shot)} {shot.answer}" for shot in card.few_shot]
    whole = "\n\n".join([*parts, _turns(card, item, documents)[-1]["content"]])
    # White space at the end belongs to the choice, as in lm-eval: alone it would be another token than before a word.
    prompt = whole.rstrip() if choices else whole
    return _split(tokenizer.opening(prompt), [tokenizer.opening(f"{whole} {choice}") for choice in choices])


_LAYOUTS = {Format.CHAT: _chat, Format.TEXT: _text}


def _split(prompt: list[int], joint: Sequence[list[int]]) -> _Tokens:
    """Prompt and choices such that prompt + choice is the tokenization of both together.

    Where the prompt's last token merges with a choice's first, the prompt ends before it, for every choice alike.
    """
    common = len(prompt)
    for ids in joint:
        common = min(common, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(prompt, ids, strict=False))))
    return _Tokens(prompt[:common], [ids[common:] for ids in joint])


def _messages(card: Card, item: Item, documents: Mapping[str, str]) -> list[Message]:
    turns = _turns(card, item, documents)
    system = [_message("system", card.system)] if card.system else [m for m in turns[:1] if m["role"] == "system"]
    shots = [
        message
        for shot in card.few_shot
        for message in (_message("user", _shot_prompt(card, shot)), _message("assistant", shot.answer))
    ]
    return [*system, *shots, *(message for message in turns if message["role"] != "system")]


def _turns(card: Card, item: Item, documents: Mapping[str, str]) -> list[Message]:
    """The item's own messages."""
    if item.messages is not None:
        return [_message(turn.role, turn.content) for turn in item.messages]
    if item.fields is not None:
        given = {DOCUMENT: documents[item.document]} if item.document else {}
        return [_message("user", _filled(card, item.fields | given))]
    return [_message("user", item.prompt or "")]


def _shot_prompt(card: Card, shot: Any) -> str:
    return _filled(card, shot.fields) if shot.fields is not None else str(shot.prompt)


def _filled(card: Card, values: Mapping[str, Any]) -> str:
    return templates.fill(card.template or "", values)


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}
