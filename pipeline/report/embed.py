"""Data and scripts inside the page: nothing in them can end their element, and no other script may run."""

from __future__ import annotations

import base64
import hashlib
import json

_ESCAPED = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""A `<` could begin `</script>` or `<!--`; the other two end a line in older JavaScript."""


def to_json(data: object) -> str:
    """Compact JSON that may stand inside a script element whatever the strings in it are."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escaped in _ESCAPED.items():
        text = text.replace(character, escaped)
    return text


def script_source(script: str) -> str:
    """The word of a content security policy that lets exactly this script run."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
