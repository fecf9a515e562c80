"""Eval sets: `eval_sets/<name>/card.yaml`, `items.jsonl` and, where items ask about documents, `documents/*.txt`."""

from pipeline.eval_sets.card import Card, Category, Format, folder, read_card
from pipeline.eval_sets.items import Item, problems, read_documents, read_items
from pipeline.eval_sets.rendering import texts, tokenize

__all__ = [
    "Card",
    "Category",
    "Format",
    "Item",
    "folder",
    "problems",
    "read_card",
    "read_documents",
    "read_items",
    "texts",
    "tokenize",
]
