"""A task of lm-evaluation-harness over local JSON or JSONL: `output_type` multiple_choice or generate_until."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import UserError
from pipeline.eval_sets.card import Format
from pipeline.eval_sets.importers import CATEGORY, Draft, DraftItem, Options, Refusals
from pipeline.eval_sets.importers import _lm_eval_data as data
from pipeline.eval_sets.importers._lm_eval_docs import Wording
from pipeline.eval_sets.importers._located import Located, read_yaml
from pipeline.eval_sets.importers._targets import answer_target, require_scorer

OPTIONS = frozenset({"scorer"})

_CARRIED = {
    *("dataset_path", "dataset_kwargs", "test_split", "validation_split", "training_split", "fewshot_split"),
    *("output_type", "doc_to_text", "doc_to_target", "doc_to_choice", "description", "num_fewshot", "fewshot_config"),
    *("target_delimiter", "fewshot_delimiter", "generation_kwargs", "metric_list", "filter_list", "repeats"),
    "task",
}
_LEFT_OUT = {
    *("task_alias", "tag", "group", "metadata", "should_decontaminate", "doc_to_decontamination_query"),
    "dataset_name",
}
"""Says nothing of what is asked and what is right."""
_FIXED = {"target_delimiter": " ", "fewshot_delimiter": "\n\n", "repeats": 1}
"""What the text format does anyway; another value cannot be carried over."""
_GREEDY = {"do_sample": False, "temperature": 0, "top_p": 1}
MAX_GEN_TOKS = 256
"""lm-eval's own limit of an answer."""
_METRICS = {"acc": "multiple_choice", "acc_norm": "multiple_choice", "exact_match": "exact", "chrf": "chrf"}
_DEFAULT_SCORERS = {"multiple_choice": "multiple_choice", "generate_until": "exact"}


def read(source: str, options: Options) -> Draft:
    """Raises UserError with everything in the task that cannot be taken over, by name and line."""
    path, refusals = Path(source), Refusals()
    task = read_yaml(path)
    if not isinstance(task.value, dict):
        raise UserError(f"{path}: expected an lm-eval task, got {task.value!r:.60}")
    _refuse_programs(task, refusals)
    refusals.unknown(task, _CARRIED | _LEFT_OUT, "an lm-eval task")
    _refuse_other_layouts(task, refusals)
    notes = [f"{task.place(key)}: {key!r} is left out" for key in task.value if key in _LEFT_OUT]
    scorer = _scorer(task, options.scorer, refusals, notes)
    max_new_tokens = _generation(task, refusals, notes)
    refusals.require_none()
    documents = data.documents(task)
    wording = Wording(task, {key for document in documents for key in document.value})
    items = [item for document in documents if (item := _item(wording, document, scorer, refusals))]
    few_shot = list(_few_shot(task, wording, refusals, notes))
    refusals.require_none()
    return Draft(
        items,
        provenance=f"Imported from the lm-eval task {path.name}.",
        description=str(task.value.get("task", "")),
        format=Format.TEXT,
        system=_description(task, notes),
        few_shot=few_shot,
        max_new_tokens=max_new_tokens,
        notes=[*notes, "the card says format: text, as lm-eval asks by default; format: chat uses the chat template"],
    )


def _refuse_programs(task: Located, refusals: Refusals) -> None:
    for route, tagged in task.tagged():
        refusals.add(
            task.place(*route),
            f"{'.'.join(map(str, route))} is a program ({tagged.tag} {tagged.text}), which cannot be imported; write "
            "its result into the data",
        )


def _refuse_other_layouts(task: Located, refusals: Refusals) -> None:
    kind = task.value.get("output_type", "generate_until")
    if kind not in _DEFAULT_SCORERS:
        allowed = ", ".join(_DEFAULT_SCORERS)
        refusals.add(task.place("output_type"), f"output_type {kind!r} cannot be imported; allowed: {allowed}")
    for key, fixed in _FIXED.items():
        value = task.value.get(key, fixed)
        if value != fixed:
            refusals.add(task.place(key), f"{key} {value!r} cannot be imported; only {fixed!r} can")
    for key in ("doc_to_text", "doc_to_target", *(["doc_to_choice"] if kind == "multiple_choice" else [])):
        if key not in task.value:
            refusals.add(task.place(), f"lacks {key!r}")


def _scorer(task: Located, wanted: str | None, refusals: Refusals, notes: list[str]) -> str:
    """The user's scorer, which stands in for the task's metrics and filters, or the one that its metrics mean."""
    metrics = task.value.get("metric_list") or []
    if wanted:
        require_scorer(wanted)
        given = [key for key in ("metric_list", "filter_list") if key in task.value]
        notes.extend(f"{task.place(key)}: --scorer {wanted} stands in for {key!r}" for key in given)
        return wanted
    if "filter_list" in task.value:
        refusals.add(
            task.place("filter_list"),
            "filter_list cannot be imported: a scorer judges the whole answer; remove it, or name one with --scorer",
        )
    found = []
    for index, metric in enumerate(metrics):
        name = metric.get("metric") if isinstance(metric, dict) else metric
        if name in _METRICS:
            found.append(_METRICS[name])
        else:
            refusals.add(
                task.place("metric_list", index),
                f"metric {name!r} cannot be imported; these can: {', '.join(_METRICS)}; or name a --scorer",
            )
    scorer = found[0] if found else _DEFAULT_SCORERS.get(task.value.get("output_type", "generate_until"), "exact")
    if scorer == "exact":
        notes.append("answers are compared as a whole, without regard to case and a final period")
    return scorer


def _generation(task: Located, refusals: Refusals, notes: list[str]) -> int | None:
    """The limit of an answer; what is not greedy, or stops at a text, is refused."""
    if task.value.get("output_type", "generate_until") != "generate_until":
        return None
    notes.append("the model ends an answer itself, or its limit does; lm-eval ends it at a blank line too")
    given = task.value.get("generation_kwargs") or {}
    for key, value in given.items():
        place = task.place("generation_kwargs", key)
        if key == "until":
            refusals.add(
                place,
                f"until {value!r} cannot be imported: a model ends its answer itself; remove it, and name a --scorer "
                "that finds the answer in a longer text, such as contains_any or numeric",
            )
        elif key != "max_gen_toks" and (key not in _GREEDY or value != _GREEDY[key]):
            refusals.add(place, f"{key} {value!r} cannot be imported: answers are greedy")
    limit = given.get("max_gen_toks", MAX_GEN_TOKS)
    return limit if isinstance(limit, int) else MAX_GEN_TOKS


def _item(wording: Wording, document: Located, scorer: str, refusals: Refusals) -> DraftItem | None:
    try:
        choices = wording.choices(document.value)
        target = answer_target(scorer, wording.answers(document.value, choices), choices)
        question = wording.question(document.value)
    except ValueError as error:
        refusals.add(document.place(), str(error))
        return None
    return DraftItem(document.place(), CATEGORY, scorer, {"prompt": question}, target)


def _few_shot(task: Located, wording: Wording, refusals: Refusals, notes: list[str]) -> Iterator[dict[str, str]]:
    for shot in data.few_shot(task, refusals, notes):
        try:
            choices = wording.choices(shot.value)
            answers = wording.answers(shot.value, choices)
            yield {"prompt": wording.question(shot.value), "answer": answers[0]}
        except ValueError as error:
            refusals.add(shot.place(), str(error))


def _description(task: Located, notes: list[str]) -> str | None:
    """lm-eval puts it before the rest as it is; here a blank line follows it."""
    description = str(task.value.get("description") or "")
    if not description.strip():
        return None
    if not description.endswith("\n\n") or description.endswith("\n\n\n"):
        notes.append(f"{task.place('description')}: a blank line separates it from the rest now")
    return description.rstrip()
