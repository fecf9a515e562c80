from __future__ import annotations

import json

import pytest

from pipeline.report import embed

HOSTILE = "</script><!-- <script> \u2028 \u2029 & \" ' \\ 中文 😀"


def test_nothing_in_data_ends_its_element():
    text = embed.to_json({HOSTILE: [HOSTILE]})
    assert "<" not in text
    assert "\u2028" not in text
    assert "\u2029" not in text
    assert json.loads(text) == {HOSTILE: [HOSTILE]}


def test_other_languages_take_their_own_size():
    assert "中文" in embed.to_json("中文")


def test_what_is_no_json_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        embed.to_json(float("nan"))


def test_the_policy_s_word_is_the_hash_of_the_script():
    """`printf 'let x' | openssl dgst -sha256 -binary | base64`."""
    assert embed.script_source("let x") == "'sha256-dXKOHtfmzrnYeAHYBCbUmBpIqmNFRVEF6ulA+ucuqt0='"
