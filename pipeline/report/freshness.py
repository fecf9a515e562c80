"""Whether the records are still those of params.yaml and of the eval sets as they are now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline import params as params_file
from pipeline import records, store
from pipeline.params import Params
from pipeline.records import Decision
from pipeline.report import conditions
from pipeline.yaml_files import read_yaml

RECEIPT = Path("dvc.lock")
"""Where DVC notes what each stage was last run on; it stands in Git, unlike the artifacts."""
SHARED_STAGES = ("base", "prompts", "reference")
"""What all variants are made of and measured on."""
JUDGED_BY_FILES = frozenset({"eval_sets"})
"""Tracked by a shared stage as a whole though the weights in it measure nothing; see `eval_set_problems`."""
ABSENT = "not there"


def param_problems(params: Params) -> Iterator[str]:
    """That the records were made under other params: a setting that a measuring stage was run with is another one
    now, or the reports were made from another params.yaml."""
    yield from _stage_problems(params)
    yield from _report_problems(params)


def _stage_problems(params: Params) -> Iterator[str]:
    """By DVC's notes, which making the reports anew leaves as they are.

    A record whose stage the receipt does not know counts as older: nothing shows that it is not.
    """
    stages = _stages()
    made = [stage for stage, record in _measuring(params) if record.exists()]
    unknown = [stage for stage in made if stage not in stages]
    if unknown:
        yield f"{RECEIPT} does not tell under which params these were run: {', '.join(unknown)}; run `dvc repro`"
    now = params_file.read(store.PARAMS)
    changed: dict[str, list[str]] = {}
    for stage in [*(name for name in SHARED_STAGES if made and name in stages), *made]:
        for change in _changes(stages.get(stage, {}), now):
            changed.setdefault(change, []).append(stage)
    for change, of in changed.items():
        yield f"params.yaml has changed since {', '.join(of)} was run: {change}; run `dvc repro`"


def _measuring(params: Params) -> Iterator[tuple[str, Path]]:
    """Every stage of every variant, with the record that it writes."""
    for name in params.variants:
        yield f"quantize@{name}", store.quantize_record(name)
        yield f"smoke@{name}", store.smoke_record(name)
        yield f"benchmark@{name}", store.speed_record(name)
        yield from ((f"evaluate@{name}-{each}", store.quality_record(name, each)) for each in params.eval_sets)
        yield f"fidelity@{name}", store.fidelity_record(name)


def _changes(stage: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Each setting that the stage was run with and that is another one now, e.g. `seed 0 → 1`."""
    noted = stage.get("params", {}).get(store.PARAMS.as_posix(), {})
    for key, was in noted.items():
        if key not in JUDGED_BY_FILES:
            yield from _differences(key, was, _at(now, key))


def _at(raw: Any, key: str) -> Any:
    """The value at a place with dots."""
    for part in key.split("."):
        raw = raw.get(part, ABSENT) if isinstance(raw, Mapping) else ABSENT
    return raw


def _differences(key: str, was: Any, now: Any) -> Iterator[str]:
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*was, *now]):
            yield from _differences(f"{key}.{name}", was.get(name, ABSENT), now.get(name, ABSENT))
    elif was != now:
        yield f"{key} {_shown(was)} → {_shown(now)}"


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _report_problems(params: Params) -> Iterator[str]:
    path = store.REPORTS / "decision.json"
    if not path.exists():
        return
    made = records.load(path, Decision).params_sha256
    now = conditions.params_sha256(params)
    changed = [name for name, value in now.items() if made.get(name) != value]
    if changed:
        yield f"params.yaml has changed since the reports were made ({', '.join(changed)}); run `dvc repro`"


def eval_set_problems(params: Params) -> Iterator[str]:
    """That an eval set's card, items or documents are others than those on which the variants were scored.

    A record that the receipt does not know counts as older: nothing shows that it is not.
    """
    stages = _stages()
    for name in params.eval_sets:
        folder = store.EVAL_SETS / name
        scored = [variant for variant in params.variants if store.quality_record(variant, name).exists()]
        scored_on = {_noted(stages, f"evaluate@{variant}-{name}", folder) for variant in scored}
        if not folder.is_dir():
            yield f"{folder}: no such eval set, so the report cannot be compared with it; bring the folder back"
        elif scored_on - {_now(folder)}:
            yield f"the report is older than eval set {name}; run `dvc repro`"


def _stages() -> dict[str, Any]:
    return dict(read_yaml(RECEIPT).get("stages") or {}) if RECEIPT.exists() else {}


def _noted(stages: dict[str, Any], stage: str, path: Path) -> str | None:
    """The hash of a folder when the stage was last run; None where that is not known."""
    deps = stages.get(stage, {}).get("deps", [])
    return next((dep["md5"] for dep in deps if dep["path"] == path.as_posix()), None)


def _now(path: Path) -> str:
    """The hash of a folder as DVC notes it, by DVC's own code; nothing is written."""
    from dvc.fs import LocalFileSystem
    from dvc.ignore import DvcIgnoreFilter
    from dvc_data.hashfile.build import build
    from dvc_data.hashfile.db import HashFileDB

    files = LocalFileSystem()
    ignored = DvcIgnoreFilter(files, str(Path.cwd()))
    _, _, built = build(HashFileDB(files, ""), str(path.absolute()), files, "md5", dry_run=True, ignore=ignored)
    return str(built.hash_info.value)
