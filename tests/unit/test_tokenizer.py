from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.tokenizer import Tokenizer

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello, wörld! 你好"}]
LLAMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture
def with_bos(tmp_path: Path, tiny_checkpoint: Path) -> Path:
    """A tokenizer as Llama 3 has it: it adds BOS itself, and its chat template writes BOS too."""
    from tokenizers import Tokenizer as Raw
    from tokenizers.processors import TemplateProcessing

    folder = tmp_path / "bos"
    shutil.copytree(tiny_checkpoint, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    raw = Raw.from_file(str(folder / "tokenizer.json"))
    bos = raw.token_to_id("<|im_start|>")
    raw.post_processor = TemplateProcessing(single="<|im_start|> $A", special_tokens=[("<|im_start|>", bos)])
    raw.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(LLAMA_TEMPLATE)
    return folder


def test_a_conversation_has_exactly_one_bos_though_template_and_tokenizer_both_add_it(with_bos: Path) -> None:
    tokenizer = Tokenizer(with_bos)
    bos = tokenizer._tokenizer.bos_token_id
    plain = tokenizer.text("Hello")
    assert (plain[0], plain.count(bos)) == (bos, 1)
    for add_generation_prompt in (True, False):
        ids = tokenizer.chat(MESSAGES, add_generation_prompt=add_generation_prompt)
        assert (ids[0], ids.count(bos)) == (bos, 1)


def test_a_template_without_bos_gets_none(with_bos: Path) -> None:
    (with_bos / "chat_template.jinja").write_text(LLAMA_TEMPLATE.removeprefix("{{ bos_token }}"))
    tokenizer = Tokenizer(with_bos)
    ids = tokenizer.chat(MESSAGES, add_generation_prompt=True)
    assert tokenizer._tokenizer.bos_token_id not in ids


def test_the_rendered_conversation_is_what_is_tokenized(tiny_checkpoint: Path) -> None:
    tokenizer = Tokenizer(tiny_checkpoint)
    rendered = (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello, wörld! 你好<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    ids = tokenizer.chat(MESSAGES, add_generation_prompt=True)
    assert tokenizer._tokenizer.decode(ids) == rendered
    without = tokenizer.chat(MESSAGES, add_generation_prompt=False)
    assert tokenizer._tokenizer.decode(without) == rendered.removesuffix("<|im_start|>assistant\n")
    # Three marks begin a turn and two end one: each is one token, not its letters.
    special = [tokenizer._tokenizer.convert_tokens_to_ids(mark) for mark in ("<|im_start|>", "<|im_end|>")]
    assert [ids.count(mark) for mark in special] == [3, 2]


def test_the_same_text_gives_the_same_ids_every_time(tiny_checkpoint: Path) -> None:
    first, second = Tokenizer(tiny_checkpoint), Tokenizer(tiny_checkpoint)
    for _ in range(3):
        assert first.text("one two") == second.text("one two")
        assert first.chat(MESSAGES, add_generation_prompt=True) == second.chat(MESSAGES, add_generation_prompt=True)


def test_decoding_gives_the_text_back_without_special_tokens(tiny_checkpoint: Path) -> None:
    tokenizer = Tokenizer(tiny_checkpoint)
    text = " Straße 5,  line\nnext 你好"
    assert tokenizer.decode(tokenizer.text(text)) == text
    assert tokenizer.decode([2, *tokenizer.text("end"), 2]) == "end"
    assert tokenizer.decode([]) == ""


def test_a_model_without_chat_template_gets_a_clear_error(tmp_path: Path, tiny_checkpoint: Path) -> None:
    folder = tmp_path / "plain"
    shutil.copytree(tiny_checkpoint, folder, ignore=shutil.ignore_patterns("*.safetensors", "*.jinja"))
    assert "chat_template" not in json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer = Tokenizer(folder)
    assert not tokenizer.has_chat_template
    assert tokenizer.text("still works")
    with pytest.raises(UserError, match=r"no chat template.*add a chat_template\.jinja to the model's source"):
        tokenizer.chat(MESSAGES, add_generation_prompt=True)


def test_a_text_to_be_continued_has_one_bos_even_where_it_brings_its_own(with_bos: Path) -> None:
    tokenizer = Tokenizer(with_bos)
    bos = tokenizer._tokenizer.bos_token_id
    assert tokenizer.opening("Hello") == tokenizer.text("Hello")
    own = tokenizer.opening("<|im_start|>Hello")
    assert (own[0], own.count(bos)) == (bos, 1)
    assert own == tokenizer.opening("Hello")


def test_a_text_to_be_continued_does_not_end_with_the_tokenizer_s_end_of_sequence(
    tmp_path: Path, tiny_checkpoint: Path
) -> None:
    from tokenizers import Tokenizer as Raw
    from tokenizers.processors import TemplateProcessing

    folder = tmp_path / "eos"
    shutil.copytree(tiny_checkpoint, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    raw = Raw.from_file(str(folder / "tokenizer.json"))
    eos = raw.token_to_id("<|im_end|>")
    raw.post_processor = TemplateProcessing(single="$A <|im_end|>", special_tokens=[("<|im_end|>", eos)])
    raw.save(str(folder / "tokenizer.json"))
    tokenizer = Tokenizer(folder)
    assert tokenizer.text("Hello")[-1] == eos
    assert tokenizer.opening("Hello") == tokenizer.text("Hello")[:-1]
