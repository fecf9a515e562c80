from __future__ import annotations

import pytest

from pipeline.scorers.words import phrase, plain, tokens


def stands(text: str, output: str) -> bool:
    return phrase(text).search(output) is not None


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("退款", "我们会为您退款。"),  # no boundary between characters
        ("退款", "A退款B"),
        ("7天", "需要7天。"),
        ("7天", "需要 7 天"),
        ("7 天", "需要7天"),
        ("八天 退款", "八天\n退款"),
        ("1.9公斤", "重1.9公斤"),
        ("iPhone手机", "新IPHONE 手机"),
        ("VIP", "他是VIP客户"),  # a Latin word beside characters stands alone
        ("환불", "환불은 가능합니다"),
        ("サポート", "カスタマーサポート窓口"),
    ],
)
def test_chinese_japanese_and_korean_phrases_stand_without_boundaries(text: str, output: str) -> None:
    assert stands(text, output)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("7天", "需要17天"),  # a number is cut at no digit, whatever stands after it
        ("9kg", "19kg"),
        ("VIP", "他是VIPS客户"),
        ("退款", "退 了款"),
        ("gift card", "giftcard"),
        ("foot", "barefoot 足"),
    ],
)
def test_words_and_numbers_keep_their_boundaries(text: str, output: str) -> None:
    assert not stands(text, output)


def test_signs_of_a_phrase_are_taken_literally() -> None:
    assert stands("a.b (c)", "see A.B  (C)!")
    assert not stands("a.b (c)", "see axb (c)")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  Two\n\t WORDS ", "two words"),
        ("共 8 件", "共8件"),
        ("可以 退款 OK now", "可以退款ok now"),
        ("Straße", "strasse"),
    ],
)
def test_plain_text_has_no_case_and_no_white_space_that_matters(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_tokens_are_words_and_single_characters_without_punctuation() -> None:
    assert tokens("Größe: 12.5 kg, 可以退款！ x_1") == ["grösse", "12", "5", "kg", "可", "以", "退", "款", "x_1"]
    assert tokens("… !?") == []
