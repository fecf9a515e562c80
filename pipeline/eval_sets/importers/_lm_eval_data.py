"""The local data of an lm-eval task: the documents that are asked, and its worked examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.errors import UserError
from pipeline.eval_sets.importers import Refusals
from pipeline.eval_sets.importers._located import Located, read_jsonl, read_text

_SAMPLING = {"sampler", "samples", "split"}


def documents(task: Located) -> list[Located]:
    """The documents of the test split, or of the validation split where there is none.

    Raises:
        UserError: the data is not local JSON or JSONL, or the split is not there.
    """
    for key in ("test_split", "validation_split"):
        if task.value.get(key):
            return _split(task, key)
    raise UserError(f"{task.place()}: lacks 'test_split' or 'validation_split'")


def few_shot(task: Located, refusals: Refusals, notes: list[str]) -> list[Located]:
    """The first `num_fewshot` worked examples, from fewshot_config.samples or the few-shot split."""
    count = task.value.get("num_fewshot") or 0
    config = task.value.get("fewshot_config") or {}
    if not isinstance(count, int) or not isinstance(config, dict):
        refusals.add(task.place("num_fewshot"), "num_fewshot must be a whole number and fewshot_config a mapping")
        return []
    for key in config.keys() - _SAMPLING:
        refusals.add(task.place("fewshot_config", key), f"fewshot_config.{key} cannot be imported; remove it")
    if not count:
        if config.get("samples"):
            notes.append(f"{task.place('fewshot_config')}: its samples are left out, since num_fewshot is 0")
        return []
    if config.get("sampler") != "first_n":
        notes.append(
            f"{task.place('num_fewshot')}: the first {count} examples stand before every item; lm-eval draws others "
            "for each, unless fewshot_config.sampler is first_n"
        )
    found = _examples(task, config)
    if len(found) < count:
        refusals.add(
            task.place("num_fewshot"),
            f"num_fewshot is {count}, but there are {len(found)} examples; write them into fewshot_config.samples",
        )
    return found[:count]


def _examples(task: Located, config: dict[str, Any]) -> list[Located]:
    samples = config.get("samples")
    if isinstance(samples, list):
        return [task.at("fewshot_config", "samples", index) for index in range(len(samples))]
    if config.get("split"):
        return _split(task.at("fewshot_config"), "split", task)
    return _split(task, "fewshot_split") if task.value.get("fewshot_split") else []


def _split(part: Located, key: str, task: Located | None = None) -> list[Located]:
    task = task or part
    wanted, files = part.value[key], _files(task)
    if wanted not in files:
        have = ", ".join(files)
        raise UserError(f"{part.place(key)}: {key} {wanted!r} is not in dataset_kwargs.data_files (there are: {have})")
    return [document for name in files[wanted] for document in _read(task, name)]


def _files(task: Located) -> dict[str, list[str]]:
    """Names of the files of each split; without splits, they are the split `train`, as in the datasets library."""
    path, kwargs = task.value.get("dataset_path"), task.value.get("dataset_kwargs") or {}
    if path != "json":
        raise UserError(
            f"{task.place('dataset_path')}: dataset_path {path!r} is not local JSON; for a data set on the hub use "
            "`quantgate eval-set import hub:owner/name`"
        )
    if not isinstance(kwargs, dict) or set(kwargs) != {"data_files"}:
        raise UserError(f"{task.place('dataset_kwargs')}: dataset_kwargs must hold data_files and nothing else")
    given = kwargs["data_files"]
    by_split = given if isinstance(given, dict) else {"train": given}
    return {split: names if isinstance(names, list) else [names] for split, names in by_split.items()}


def _read(task: Located, name: Any) -> list[Located]:
    """Documents of one file, beside the task or, as lm-eval has it, below the current folder."""
    place = task.place("dataset_kwargs", "data_files")
    candidates = [task.path.parent / str(name), Path(str(name))]
    path = next((each for each in candidates if each.is_file()), None)
    if path is None:
        raise UserError(f"{place}: no file {name}, neither beside the task nor in the current folder")
    if path.suffix == ".jsonl":
        return read_jsonl(path)
    try:
        rows = json.loads(read_text(path))
    except ValueError:
        return read_jsonl(path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserError(f"{path}: expected a list of JSON objects")
    return [Located(path, row, {(): 1}) for row in rows]
