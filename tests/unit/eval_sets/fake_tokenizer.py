"""A tokenizer whose ids can be read: one token per word with the space before it, so that merges are seen at once."""

from __future__ import annotations

import re
from typing import Any

from pipeline.tokenizer import Tokenizer

BOS, EOS = "<s>", "</s>"
_TOKEN = re.compile(r"<s>|</s>|\n+| ?\w+| ?[^\w\s]|\s")


class Words:
    """What pipeline.tokenizer needs of a transformers tokenizer."""

    bos_token, eos_token = BOS, EOS

    def __init__(self, *, adds_bos: bool, adds_eos: bool = False, chat_template: str | None = None) -> None:
        self.chat_template = chat_template
        self._adds_bos, self._adds_eos = adds_bos, adds_eos
        self.ids: dict[str, int] = {BOS: 0, EOS: 1}

    @property
    def eos_token_id(self) -> int:
        return self.ids[EOS]

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        words = _TOKEN.findall(text)
        if add_special_tokens:
            words = [BOS] * self._adds_bos + words + [EOS] * self._adds_eos
        return {"input_ids": [self.ids.setdefault(word, len(self.ids)) for word in words]}

    def apply_chat_template(
        self, messages: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        from jinja2 import Environment
        from jinja2.exceptions import TemplateError

        def refuse(message: str) -> None:
            raise TemplateError(message)

        assert tokenize is False
        template = Environment().from_string(self.chat_template or "")
        return template.render(
            messages=messages, add_generation_prompt=add_generation_prompt, bos_token=BOS, raise_exception=refuse
        )

    def words(self, ids: list[int]) -> list[str]:
        names = {number: word for word, number in self.ids.items()}
        return [names[number] for number in ids]


def tokenizer(words: Any) -> Tokenizer:
    made = Tokenizer.__new__(Tokenizer)
    made._tokenizer = words
    return made


def template(bos: str = "") -> str:
    """A chat template: role, colon, content and line end for each message; with `{{ bos_token }}` before or without."""
    return (
        bos + "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
