"""promptfoo: a configuration with `prompts` and `tests`, or a JSONL file of tests with one variable, the prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from pipeline.errors import UserError
from pipeline.eval_sets.importers import Draft, DraftItem, Options, Refusals
from pipeline.eval_sets.importers import _promptfoo_asserts as asserts
from pipeline.eval_sets.importers import _promptfoo_prompts as prompts
from pipeline.eval_sets.importers._located import Located, read_jsonl, read_yaml

OPTIONS: frozenset[str] = frozenset()

_LEFT_OUT = {
    *("providers", "targets", "outputPath", "sharing", "env", "commandLineOptions", "evaluateOptions"),
    *("writeLatestResults", "tags", "$schema"),
}
"""Says nothing of what is asked and what is right."""
_CONFIG = {"description", "prompts", "tests", "defaultTest"}
_TEST = {"vars", "assert"}
_TEST_LEFT_OUT = {"description", "metadata"}


def read(source: str, _: Options) -> Draft:
    """Raises UserError with everything in the configuration that cannot be taken over, by name and line."""
    path, refusals = Path(source), Refusals()
    if path.suffix == ".jsonl":
        config = Located(path, {}, {})
        tests, prompt = read_jsonl(path), None
    else:
        config = _mapping(read_yaml(path), "a promptfoo configuration")
        refusals.unknown(config, _CONFIG | _LEFT_OUT, "a promptfoo configuration")
        tests, prompt = list(_tests(config, refusals)), prompts.read(config, refusals)
    default = config.at("defaultTest") if "defaultTest" in config.value else Located(path, {}, {})
    refusals.unknown(_mapping(default, "defaultTest"), _TEST | _TEST_LEFT_OUT, "defaultTest")
    left_out: Counter[str] = Counter()
    items = [item for test in tests for item in _items(test, default, prompt, refusals, left_out)]
    refusals.require_none()
    return Draft(
        items,
        provenance=f"Imported from the promptfoo file {path.name}.",
        description=str(config.value.get("description", "")),
        notes=[
            *(f"{config.place(key)}: {key!r} is left out" for key in config.value if key in _LEFT_OUT),
            *(f"{key!r} is left out in {count} of {len(tests)} tests" for key, count in left_out.items()),
            *asserts.notes(items),
        ],
    )


def _tests(config: Located, refusals: Refusals) -> Iterator[Located]:
    """The tests of a configuration, those in files of their own included."""
    given = config.value.get("tests")
    entries = given if isinstance(given, list) else [given]
    for index, entry in enumerate(entries):
        route = ("tests", index) if isinstance(given, list) else ("tests",)
        if isinstance(entry, dict):
            yield config.at(*route)
        elif isinstance(entry, str):
            yield from _tests_of_file(config.place(*route), config.path.parent, entry, refusals)
        else:
            refusals.add(config.place(*route), f"expected tests or the name of a file with tests, got {entry!r:.60}")


def _tests_of_file(place: str, folder: Path, name: str, refusals: Refusals) -> Iterator[Located]:
    path = folder / name.removeprefix("file://")
    try:
        if path.suffix == ".jsonl":
            yield from read_jsonl(path)
        elif path.suffix in (".yaml", ".yml", ".json"):
            tests = read_yaml(path)
            if isinstance(tests.value, list):
                yield from (tests.at(index) for index in range(len(tests.value)))
            else:
                refusals.add(str(path), "expected a list of tests")
        else:
            refusals.add(place, f"tests in {name!r} cannot be imported; YAML, JSON and JSONL files can")
    except UserError as error:
        refusals.problems.extend(error.problems)


def _items(
    test: Located, default: Located, prompt: prompts.Prompt | None, refusals: Refusals, left_out: Counter[str]
) -> Iterator[DraftItem]:
    """The items of one test: one for each combination of the values that its variables list."""
    if not isinstance(test.value, dict):
        refusals.add(test.place(), f"expected a test, got {test.value!r:.60}")
        return
    refusals.unknown(test, _TEST | _TEST_LEFT_OUT, "a test")
    left_out.update(key for key in test.value if key in _TEST_LEFT_OUT)
    try:
        for values in _combinations({**_vars(default), **_vars(test)}):
            scorer, target = asserts.target(_asserts(default) + _asserts(test), values, test.place())
            question = prompt.ask(values) if prompt else _only(values)
            yield DraftItem(test.place(), scorer.replace("_", "-"), scorer, question, target)
    except ValueError as error:
        refusals.add(test.place("vars"), str(error))
    except UserError as error:
        refusals.problems.extend(error.problems)


def _only(values: Mapping[str, Any]) -> dict[str, str]:
    """The question of a test in a file without prompts."""
    if len(values) != 1:
        raise ValueError(
            f"'vars' holds {len(values)} variables and the file no prompt to fill; import the configuration that "
            "names this file"
        )
    return {"prompt": str(next(iter(values.values())))}


def _vars(test: Located) -> dict[str, Any]:
    found = test.value.get("vars", {})
    if not isinstance(found, dict):
        raise ValueError(f"'vars' must be given in the file itself, got {found!r:.60}")
    return found


def _asserts(test: Located) -> list[Located]:
    found = test.value.get("assert", [])
    if not isinstance(found, list):
        raise UserError(f"{test.place('assert')}: 'assert' must be a list, got {found!r:.60}")
    return [test.at("assert", index) for index in range(len(found))]


def _combinations(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every choice of one value of each variable that lists several, as promptfoo expands them."""
    for name, value in values.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str) and each.startswith("file://"):
                raise ValueError(f"variable {name!r} is a file ({each}), which cannot be imported; put its text there")
            if isinstance(each, str) and ("{{" in each or "{%" in each):
                raise ValueError(f"variable {name!r} is a template itself ({each!r:.60}); put its text there")
    listed = [value if isinstance(value, list) else [value] for value in values.values()]
    yield from (dict(zip(values, chosen, strict=True)) for chosen in product(*listed))


def _mapping(part: Located, what: str) -> Located:
    if not isinstance(part.value, dict):
        raise UserError(f"{part.place()}: expected {what}, got {part.value!r:.60}")
    return part
