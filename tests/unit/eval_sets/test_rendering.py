from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.eval_sets.fake_tokenizer import Words, template, tokenizer
from unit.workspace import CARD, ITEMS, eval_set

from pipeline import eval_sets, store
from pipeline.errors import UserError
from pipeline.quality_records import ItemPrompt
from pipeline.tokenizer import Tokenizer

SHOT = {"prompt": "Snow?", "answer": "white"}
MULTIPLE_CHOICE = {"scorer": "multiple_choice", "max_new_tokens": 1, "description": "x"}


def asked(prompt: str = "Red or blue?", **changes: Any) -> dict[str, Any]:
    return ITEMS[1] | {"prompt": prompt} | changes


def choosing(prompt: str, *choices: str) -> dict[str, Any]:
    return asked(prompt, category="pick", target={"choices": list(choices), "answer": choices[0]})


def write(folder: Path, *items: dict[str, Any], **card: Any) -> None:
    eval_set(folder, items, categories=CARD["categories"] | {"pick": MULTIPLE_CHOICE}, **card)


def prompts(words: Words, context: int = 1000) -> list[ItemPrompt]:
    return eval_sets.tokenize("colours", tokenizer(words), context)


def chat(bos: str = "") -> Words:
    return Words(adds_bos=False, chat_template=template(bos))


@pytest.mark.parametrize("adds_bos", [True, False])
@pytest.mark.parametrize("bos", ["{{ bos_token }}", ""])
def test_a_chat_has_the_bos_of_its_template_whether_or_not_the_tokenizer_adds_one(
    workspace: Path, adds_bos: bool, bos: str
) -> None:
    write(workspace, asked())
    words = Words(adds_bos=adds_bos, chat_template=template(bos))
    [prompt] = prompts(words)
    expected = ["user", ":", " Red", " or", " blue", "?", "\n", "assistant", ":"]
    assert words.words(prompt.token_ids) == (["<s>", *expected] if bos else expected)


@pytest.mark.parametrize("adds_bos", [True, False])
@pytest.mark.parametrize("text", ["<s>Red?", "Red?"])
def test_a_text_has_one_bos_at_most(workspace: Path, adds_bos: bool, text: str) -> None:
    write(workspace, asked(text), format="text")
    words = Words(adds_bos=adds_bos)
    [prompt] = prompts(words)
    has_bos = adds_bos or text.startswith("<s>")
    assert words.words(prompt.token_ids) == (["<s>", "Red", "?"] if has_bos else ["Red", "?"])


@pytest.mark.parametrize(("text", "ends"), [("Red?", ["?"]), ("Red</s>", ["</s>", "</s>"])])
def test_no_end_of_sequence_of_the_tokenizer_stands_after_a_text(workspace: Path, text: str, ends: list[str]) -> None:
    """What the text itself says stays."""
    write(workspace, asked(text), format="text")
    words = Words(adds_bos=True, adds_eos=True)
    [prompt] = prompts(words)
    assert words.words(prompt.token_ids)[2:] == ends


def test_system_worked_examples_and_turns_stand_in_their_order(workspace: Path) -> None:
    turns = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    write(workspace, ITEMS[1] | {"messages": turns, "prompt": None}, system="Be brief.", few_shot=[SHOT])
    words = chat()
    [prompt] = prompts(words)
    assert "".join(words.words(prompt.token_ids)) == (
        "system: Be brief.\nuser: Snow?\nassistant: white\nuser: a\nassistant: b\nuser: c\nassistant:"
    )
    assert prompt.prompt == "c"


def test_worked_examples_stand_after_an_item_s_own_system_message(workspace: Path) -> None:
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]
    write(workspace, ITEMS[1] | {"messages": turns, "prompt": None}, few_shot=[SHOT])
    words = chat()
    [prompt] = prompts(words)
    assert "".join(words.words(prompt.token_ids)) == ("system: s\nuser: Snow?\nassistant: white\nuser: a\nassistant:")


def test_a_text_is_laid_out_as_lm_eval_does(workspace: Path) -> None:
    write(workspace, asked(), system="Be brief.", few_shot=[SHOT, SHOT], format="text")
    words = Words(adds_bos=False)
    [prompt] = prompts(words)
    assert "".join(words.words(prompt.token_ids)) == ("Be brief.\n\nSnow? white\n\nSnow? white\n\nRed or blue?")


def test_a_template_is_filled_and_a_document_stands_as_its_name_for_people(workspace: Path) -> None:
    shot = {"fields": {"document": "Snow is white.", "question": "Snow?"}, "answer": "white"}
    item = ITEMS[1] | {"prompt": None, "fields": {"question": "Which?"}, "document": "lease"}
    write(workspace, item, template="{document}\nQ: {question}", few_shot=[shot])
    (workspace / "eval_sets" / "colours" / "documents").mkdir()
    (workspace / "eval_sets" / "colours" / "documents" / "lease.txt").write_text("The {car} is red.\n")
    words = chat()
    [prompt] = prompts(words)
    assert "".join(words.words(prompt.token_ids)) == (
        "user: Snow is white.\nQ: Snow?\nassistant: white\nuser: The {car} is red.\nQ: Which?\nassistant:"
    )
    assert prompt.prompt == "[lease]\nQ: Which?"
    assert prompt.cluster == "lease"
    assert eval_sets.texts("colours") == {"name-1": "The {car} is red.\nQ: Which?"}


def test_a_choice_follows_a_text_after_a_space(workspace: Path) -> None:
    write(workspace, choosing("Colour:", "red", "light blue"), format="text")
    words = Words(adds_bos=True)
    [prompt] = prompts(words)
    assert words.words(prompt.token_ids) == ["<s>", "Colour", ":"]
    assert [words.words(choice.token_ids) for choice in prompt.choices] == [[" red"], [" light", " blue"]]
    assert [(choice.text, choice.bytes) for choice in prompt.choices] == [("red", 3), ("light blue", 10)]


def test_white_space_at_the_end_of_a_text_goes_to_the_choices_as_in_lm_eval(workspace: Path) -> None:
    """lm-eval strips the context and puts the white space before the delimiter and the choice."""
    write(workspace, choosing("Colour: \n", "red", "blue"), format="text")
    words = Words(adds_bos=False)
    [prompt] = prompts(words)
    assert words.words(prompt.token_ids) == ["Colour", ":"]
    assert ["".join(words.words(choice.token_ids)) for choice in prompt.choices] == [" \n red", " \n blue"]


def test_without_choices_white_space_at_the_end_stays(workspace: Path) -> None:
    write(workspace, asked("Colour: \n"), format="text")
    words = Words(adds_bos=False)
    [prompt] = prompts(words)
    assert "".join(words.words(prompt.token_ids)) == "Colour: \n"


def test_a_choice_begins_the_reply_of_a_chat(workspace: Path) -> None:
    write(workspace, choosing("Colour", "red", "blue"))
    words = chat()
    [prompt] = prompts(words)
    assert words.words(prompt.token_ids)[-2:] == ["assistant", ":"]
    assert [words.words(choice.token_ids) for choice in prompt.choices] == [["red"], ["blue"]]


def test_where_prompt_and_choice_merge_the_prompt_ends_before_for_all_choices(workspace: Path) -> None:
    """ "assistant" + "s" is one token, so the prompt's last one is asked again with each choice."""
    write(workspace, choosing("Colour", "s", "- blue"))
    words = Words(adds_bos=False, chat_template=template().replace("assistant:", "assistant"))
    [prompt] = prompts(words)
    assert words.words(prompt.token_ids)[-1] == "\n"
    assert [words.words(choice.token_ids) for choice in prompt.choices] == [
        ["assistants"],
        ["assistant", "-", " blue"],
    ]


def test_a_choice_of_which_the_tokenizer_leaves_nothing_is_told(workspace: Path) -> None:
    write(workspace, choosing("Colour", "red", "blue"))
    words = chat()
    whole = words.__call__
    words_without = type("Deaf", (Words,), {"__call__": lambda self, text, **k: whole(text.removesuffix("blue"), **k)})
    deaf = words_without(adds_bos=False, chat_template=template())
    deaf.ids = words.ids
    with pytest.raises(UserError, match=r"^eval set colours: item 'name-1': the tokenizer leaves nothing of a choice"):
        prompts(deaf)


def test_the_hash_tells_prompts_and_choices_apart(workspace: Path) -> None:
    items = [
        choosing("Colour", "red", "blue"),
        choosing("Colour", "red", "green"),
        asked("Colour"),
        asked("Color"),
        asked("Colour"),
    ]
    write(workspace, *(item | {"id": f"name-{n}"} for n, item in enumerate(items)))
    hashes = [prompt.prompt_sha256 for prompt in prompts(chat())]
    assert len(set(hashes)) == 4
    assert hashes[2] == hashes[4]
    [*_, last] = prompts(chat())
    assert last.prompt_sha256 == store.sha256_json(last.token_ids)


def test_what_an_item_and_its_category_say_goes_along(workspace: Path) -> None:
    categories = {"name": CARD["categories"]["name"] | {"weight": 2.5}}
    eval_set(workspace, [asked(critical=True, group="g")], categories=categories)
    [prompt] = prompts(chat())
    assert (prompt.item_id, prompt.category, prompt.critical, prompt.cluster) == ("name-1", "name", True, "g")
    assert (prompt.weight, prompt.scorer, prompt.max_new_tokens) == (2.5, "contains_any", 6)
    assert (prompt.target, prompt.prompt, prompt.choices) == ({"any_of": ["red"]}, "Red or blue?", [])


def test_an_item_over_the_context_is_marked_from_the_first_token_too_many(workspace: Path) -> None:
    write(workspace, asked("word " * 20), asked(id="name-2"))
    long, short = prompts(chat())
    needed = len(long.token_ids) + 6
    assert not long.over_context
    assert [prompt.over_context for prompt in prompts(chat(), needed)] == [False, False]
    assert [prompt.over_context for prompt in prompts(chat(), needed - 1)] == [True, False]
    assert prompts(chat(), needed - 1)[0].token_ids == long.token_ids
    assert len(short.token_ids) < len(long.token_ids)


def test_of_an_item_with_choices_the_longest_must_fit(workspace: Path) -> None:
    write(workspace, choosing("Colour", "red", "a b c d e"))
    [prompt] = prompts(chat())
    needed = len(prompt.token_ids) + 5
    assert [prompts(chat(), context)[0].over_context for context in (needed, needed - 1)] == [False, True]


def test_a_model_without_chat_template_takes_text_only(workspace: Path) -> None:
    write(workspace, asked())
    with pytest.raises(UserError, match=r"^eval set colours: the base model has no chat template.*format: text"):
        prompts(Words(adds_bos=True))
    write(workspace, asked(), format="text")
    assert len(prompts(Words(adds_bos=True))) == 1


def test_a_template_that_takes_no_system_message_is_told(workspace: Path) -> None:
    """As Gemma's does."""
    write(workspace, asked(), system="Be brief.")
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    with pytest.raises(UserError, match=r"refuses messages with the roles system, user: System role not supported"):
        prompts(Words(adds_bos=False, chat_template=refusing + template()))


def test_a_real_tokenizer_gives_the_same_ids_every_time(workspace: Path, tiny_checkpoint: Path) -> None:
    write(workspace, choosing("Colour?", "red", "light blue"), asked(id="name-2"), system="Be brief.")
    once = eval_sets.tokenize("colours", Tokenizer(tiny_checkpoint), 1024)
    assert once == eval_sets.tokenize("colours", Tokenizer(tiny_checkpoint), 1024)
    real = Tokenizer(tiny_checkpoint)._tokenizer
    assert real.decode(once[0].token_ids) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nColour?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert [real.decode(choice.token_ids) for choice in once[0].choices] == ["red", "light blue"]
