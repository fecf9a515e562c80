"""Items that ask the same, or nearly the same: they count one piece of evidence twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from pipeline import overlap, store
from pipeline.eval_sets.card import Card
from pipeline.eval_sets.items import Item
from pipeline.eval_sets.rendering import shown_prompt
from pipeline.scorers.words import tokens

SHINGLE = 3
"""Words in a row that are compared."""
NEAR = 0.7
"""Share of the shingles of either item that both have, from which on two items are nearly the same."""
COMMON = 0.05
"""A shingle in more than this share of the items, and in more than two, is the set's own wording and says nothing."""


@dataclass(frozen=True)
class NearPair:
    first: str
    second: str
    similarity: float
    """Jaccard index of their shingles, 0 to 1."""


def exact(card: Card, items: Sequence[Item]) -> Iterator[str]:
    """Items that differ in case, punctuation and white space at most."""
    by_question: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        by_question[_question(card, item)].append(item)
    for same in by_question.values():
        if len(same) > 1:
            answers = {store.sha256_json(item.target) for item in same}
            contrary = "" if len(answers) == 1 else ", with different targets"
            yield f"items {', '.join(item.id for item in same)} ask the same{contrary}; keep one"


def near(card: Card, items: Sequence[Item]) -> list[NearPair]:
    """Pairs with like wording, most alike first; items of one cluster are like each other on purpose."""
    told = {item.id: item.cluster for item in items}
    questions = {item.id: _question(card, item) for item in items}
    shingles = _distinctive({item_id: frozenset(overlap.runs(text, SHINGLE)) for item_id, text in questions.items()})
    pairs = [
        NearPair(first, second, similarity)
        for (first, second), similarity in _similarities(shingles).items()
        if similarity >= NEAR
        and questions[first] != questions[second]
        and (told[first] is None or told[first] != told[second])
    ]
    return sorted(pairs, key=lambda pair: (-pair.similarity, pair.first, pair.second))


def _question(card: Card, item: Item) -> str:
    """What tells items apart: the prompt, the document's name, and choices that stand in no prompt."""
    choices = item.target.get("choices", []) if isinstance(item.target, dict) else []
    earlier = [turn.content for turn in (item.messages or [])[:-1]]
    return " ".join(tokens("\n".join([*earlier, shown_prompt(card, item), *map(str, choices)])))


def _distinctive(shingles: Mapping[str, frozenset[overlap.Run]]) -> dict[str, frozenset[overlap.Run]]:
    counts = Counter(shingle for own in shingles.values() for shingle in own)
    most = max(2, COMMON * len(shingles))
    return {item_id: frozenset(s for s in own if counts[s] <= most) for item_id, own in shingles.items()}


def _similarities(shingles: Mapping[str, frozenset[overlap.Run]]) -> dict[tuple[str, str], float]:
    """Jaccard index of each pair that shares any shingle."""
    holders: dict[overlap.Run, list[str]] = defaultdict(list)
    for item_id, own in shingles.items():
        for shingle in own:
            holders[shingle].append(item_id)
    shared = Counter(pair for ids in holders.values() for pair in combinations(ids, 2))
    return {
        (first, second): count / len(shingles[first] | shingles[second]) for (first, second), count in shared.items()
    }
