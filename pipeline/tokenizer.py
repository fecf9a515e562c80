"""Text and chat messages → token ids, with the base model's own tokenizer and chat template.

Prompts are tokenized once, from the base checkpoint, so that every variant gets identical ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import UserError

Message = dict[str, str]


class Tokenizer:
    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)

    @property
    def has_chat_template(self) -> bool:
        return self._tokenizer.chat_template is not None

    def text(self, text: str) -> list[int]:
        """Token ids of plain text, with the special tokens that the tokenizer itself adds."""
        return list(self._tokenizer(text)["input_ids"])

    def chat(self, messages: Sequence[Message], *, add_generation_prompt: bool) -> list[int]:
        """Token ids of a conversation; the template, not the tokenizer, adds BOS, so that there is one at most.

        Raises:
            UserError: the model has no chat template.
        """
        if not self.has_chat_template:
            raise UserError(
                "the base model has no chat template, which eval sets and chat calibration samples need; "
                "add a chat_template.jinja to the model's source"
            )
        rendered = self._tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=add_generation_prompt
        )
        return list(self._tokenizer(rendered, add_special_tokens=False)["input_ids"])

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))
