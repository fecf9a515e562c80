from __future__ import annotations

from pathlib import Path

import pytest
from unit.runs.jobs import fidelity_text, prompts_job
from unit.workspace import ITEMS, eval_set

from pipeline import checkpoint, records, store
from pipeline.errors import UserError
from pipeline.quality_records import FidelityText, ItemPrompt
from pipeline.records import WorkloadPrompts
from pipeline.runs import evaluate, prompts
from pipeline.tokenizer import Tokenizer


@pytest.mark.usefixtures("project")
def test_a_workload_is_the_first_tokens_of_its_text_exactly() -> None:
    written = records.load(store.WORKLOAD_PROMPTS, WorkloadPrompts)
    [workload] = written.workloads
    text = Path("text.txt").read_text()
    assert workload.token_ids == Tokenizer(store.BASE).text(text)[:24]
    assert workload.prompt_sha256 == store.sha256_json(workload.token_ids)
    assert (workload.workload, workload.output_tokens, workload.concurrency, workload.pairs) == ("short", 3, 1, 2)
    assert written.tokenizer_sha256 == checkpoint.read_manifest(store.BASE).tokenizer_sha256


@pytest.mark.usefixtures("project")
def test_the_fidelity_text_is_written_in_windows() -> None:
    written = records.load(store.FIDELITY_PROMPT, FidelityText)
    ids = Tokenizer(store.BASE).text(Path("corpus.txt").read_text())
    assert written.windows == [ids[:32], ids[32:64], ids[64:96]]
    assert (written.text, written.tokens, written.window_tokens) == ("corpus.txt", 96, 32)
    assert written.tokenizer_sha256 == checkpoint.read_manifest(store.BASE).tokenizer_sha256


@pytest.mark.usefixtures("project")
def test_eval_items_are_written_one_a_line_in_file_order() -> None:
    lines = store.eval_set_prompts("colours").read_text().splitlines()
    items = [ItemPrompt.model_validate_json(line) for line in lines]
    assert [item.item_id for item in items] == [item["id"] for item in ITEMS]
    assert [item.target for item in items] == [item["target"] for item in ITEMS]
    assert items == evaluate.read_prompts("colours")


def test_an_item_over_the_context_is_written_with_a_mark(project: Path) -> None:
    eval_set(project, [ITEMS[0] | {"prompt": "word " * 2000}, ITEMS[1]])
    prompts.run(prompts_job())
    assert [item.over_context for item in evaluate.read_prompts("colours")] == [True, False]


@pytest.mark.usefixtures("project")
def test_running_again_gives_the_same_bytes() -> None:
    paths = (store.WORKLOAD_PROMPTS, store.FIDELITY_PROMPT, store.eval_set_prompts("colours"))
    before = [path.read_bytes() for path in paths]
    prompts.run(prompts_job())
    assert [path.read_bytes() for path in paths] == before


@pytest.mark.usefixtures("project")
def test_prompt_and_output_may_fill_the_context_and_no_more() -> None:
    Path("text.txt").write_text("word " * 2000)
    [workload] = prompts.run(prompts_job(prompt_tokens=1021)).workloads
    assert len(workload.token_ids) == 1021
    with pytest.raises(UserError, match="short: 1022 prompt and 3 output tokens exceed the model's context of 1024"):
        prompts.run(prompts_job(prompt_tokens=1022))


@pytest.mark.usefixtures("project")
def test_a_text_that_is_too_short_is_told_with_both_numbers() -> None:
    Path("text.txt").write_text("five")
    has = len(Tokenizer(store.BASE).text("five"))
    words = rf"prompt_tokens is 24, but text\.txt has only {has} tokens; lengthen the text or lower prompt_tokens"
    with pytest.raises(UserError, match=words):
        prompts.run(prompts_job())


def test_all_mistakes_are_told_at_once_and_nothing_of_the_workloads_is_written(project: Path) -> None:
    store.WORKLOAD_PROMPTS.unlink()
    eval_set(project, [item | {"prompt": ""} for item in ITEMS[:2]])
    with pytest.raises(UserError) as caught:
        prompts.run(prompts_job(prompt_tokens=2000, fidelity=fidelity_text(tokens=10**6)))
    found = caught.value.problems
    assert len(found) == 4
    assert [problem.split(" ")[0] for problem in found[:2]] == [
        "eval_sets/colours/items.jsonl:1:",
        "eval_sets/colours/items.jsonl:2:",
    ]
    assert found[2].startswith("benchmark.workloads.short: ")
    assert found[3].startswith("fidelity: tokens is 1000000, but corpus.txt has only ")
    assert not store.WORKLOAD_PROMPTS.exists()


def test_a_prompt_with_an_unusual_line_separator_is_read_back(project: Path) -> None:
    items = evaluate.read_prompts("colours")
    changed = [items[0].model_copy(update={"prompt": "one\u2028two"}), *items[1:]]
    assert project.is_dir()
    records.save_items(store.eval_set_prompts("colours"), changed)
    assert evaluate.read_prompts("colours") == changed
