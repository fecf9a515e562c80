"""The prompt of a promptfoo configuration: one text or one conversation, in the file or in one of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import UserError
from pipeline.eval_sets.importers import Refusals
from pipeline.eval_sets.importers._jinja import fill
from pipeline.eval_sets.importers._located import Located, read_text, read_yaml

_FILES = (".txt", ".md", ".j2", ".json", ".yaml", ".yml")
_PROGRAMS = (".py", ".js", ".ts", ".mjs", ".cjs", ".sh", ".exe")
_SEVERAL = "\n---\n"
"""Between the prompts of one text file."""


@dataclass(frozen=True)
class Prompt:
    text: str | None
    messages: list[dict[str, str]]

    def ask(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The question with the values in it; raises ValueError when it names a variable without one."""
        if self.text is not None:
            return {"prompt": fill(self.text, values)}
        return {"messages": [message | {"content": fill(message["content"], values)} for message in self.messages]}


def read(config: Located, refusals: Refusals) -> Prompt | None:
    """The one prompt; None, and a refusal, when there is another number of them or it is a program."""
    given = config.value.get("prompts")
    entries = given if isinstance(given, list) else [] if given is None else [given]
    if len(entries) != 1:
        refusals.add(
            config.place("prompts"),
            f"{len(entries)} prompts, but an eval set asks each item once; leave one in 'prompts'",
        )
        return None
    place = config.place(*(("prompts", 0) if isinstance(given, list) else ("prompts",)))
    text = entries[0]
    if isinstance(text, dict):
        text = text.get("raw") or text.get("id")
    try:
        if not isinstance(text, str):
            raise ValueError(f"expected a prompt as text, got {entries[0]!r:.60}")
        return _prompt(config.path.parent, text)
    except ValueError as error:
        refusals.add(place, str(error))
    except UserError as error:
        refusals.problems.extend(error.problems)
    return None


def _prompt(folder: Path, text: str) -> Prompt:
    name = text.removeprefix("file://")
    program = Path(name.partition(":")[0]).suffix in _PROGRAMS and "\n" not in name
    if program or text.startswith("exec:"):
        raise ValueError(f"the prompt {text!r:.60} is a program, which cannot be imported; give its text")
    is_file = name != text or (Path(name).suffix in _FILES and "\n" not in name)
    if not is_file:
        return _inline(text)
    path = folder / name
    if path.suffix in (".yaml", ".yml"):
        return Prompt(None, _messages(read_yaml(path).value))
    content = read_text(path)
    if _SEVERAL in content:
        raise ValueError(f"{path} holds several prompts, separated by ---; leave one")
    return _inline(content.strip())


def _inline(text: str) -> Prompt:
    """A text, or a conversation where the text is a JSON list of messages."""
    if not (text.lstrip().startswith("[") and '"role"' in text):
        return Prompt(text, [])
    try:
        return Prompt(None, _messages(json.loads(text)))
    except json.JSONDecodeError as error:
        raise ValueError(f"the prompt looks like a JSON list of messages, but is none ({error})") from None


def _messages(value: Any) -> list[dict[str, str]]:
    if not isinstance(value, list) or not value:
        raise ValueError("expected a list of messages")
    for message in value:
        if not isinstance(message, dict) or set(message) != {"role", "content"}:
            raise ValueError(f"a message needs 'role' and 'content' and nothing else, got {message!r:.80}")
        if not isinstance(message["content"], str):
            raise ValueError(f"the content of a message must be a text, got {message['content']!r:.80}")
    return value
