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
        self._tokenizer: Any = _load(folder)

    @property
    def has_chat_template(self) -> bool:
        return self._tokenizer.chat_template is not None

    def text(self, text: str) -> list[int]:
        """Token ids of plain text, with the special tokens that the tokenizer itself adds."""
        return list(self._tokenizer(text)["input_ids"])

    def opening(self, text: str) -> list[int]:
        """Token ids of plain text that the model is to continue.

        The tokenizer's BOS stands first, once, even where the text brings its own; no end of sequence follows.
        """
        begins = self._tokenizer.bos_token is not None and text.startswith(self._tokenizer.bos_token)
        ids = list(self._tokenizer(text, add_special_tokens=not begins)["input_ids"])
        if ids[-1:] != [self._tokenizer.eos_token_id]:
            return ids
        own = list(self._tokenizer(text, add_special_tokens=False)["input_ids"])
        return ids if own[-1:] == ids[-1:] else ids[:-1]

    def chat(self, messages: Sequence[Message], *, add_generation_prompt: bool) -> list[int]:
        """Token ids of a conversation; raises as `render`."""
        return self.rendered(self.render(messages, add_generation_prompt=add_generation_prompt))

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool) -> str:
        """A conversation as the text that the chat template makes of it, special tokens included.

        Raises:
            UserError: the model has no chat template, or its template refuses such messages.
        """
        from jinja2.exceptions import TemplateError

        if not self.has_chat_template:
            raise UserError(
                "the base model has no chat template, which chat calibration samples and eval sets need (unless their "
                "card says format: text); add a chat_template.jinja to the model's source"
            )
        try:
            rendered = self._tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=add_generation_prompt
            )
        except TemplateError as error:
            roles = ", ".join(message["role"] for message in messages)
            raise UserError(f"the model's chat template refuses messages with the roles {roles}: {error}") from None
        return str(rendered)

    def rendered(self, text: str) -> list[int]:
        """Token ids of what `render` gave; the template, not the tokenizer, adds BOS, so that there is one at most."""
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))


def _load(folder: Path) -> Any:
    import transformers

    if int(transformers.__version__.partition(".")[0]) >= 5:
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    # A worker in a toolchain's environment. transformers 4 knows neither the class that 5 writes into
    # tokenizer_config.json nor its list of extra special tokens; what both stand for is in tokenizer.json too.
    return transformers.PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True, extra_special_tokens={})
