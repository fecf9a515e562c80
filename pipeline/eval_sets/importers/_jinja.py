"""Templates of foreign formats, filled in a sandbox; a name without a value is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment


def fill(template: str, values: Mapping[str, Any]) -> str:
    """The template with its values.

    Raises:
        ValueError: the template cannot be read, or names something that has no value.
    """
    from jinja2.exceptions import SecurityError, TemplateError

    try:
        return _environment().from_string(template).render(dict(values))
    except (TemplateError, SecurityError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise ValueError(f"the template {template!r:.80} cannot be filled: {error}") from None


@cache
def _environment() -> SandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["regex_replace"] = _regex_replace
    environment.filters["dump"] = json.dumps
    return environment


def _regex_replace(text: str, pattern: str, replacement: str, count: int = 0) -> str:
    """lm-eval's filter."""
    return re.sub(pattern, replacement, text, count=count)
