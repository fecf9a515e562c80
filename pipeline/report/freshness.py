"""Whether the records are still those of params.yaml and of the eval sets as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline import records, store
from pipeline.params import Params
from pipeline.records import Decision
from pipeline.report import conditions
from pipeline.yaml_files import read_yaml

RECEIPT = Path("dvc.lock")
"""Where DVC notes what each stage was last run on; it stands in Git, unlike the artifacts."""


def param_problems(params: Params) -> Iterator[str]:
    """That the records were made under other params, naming each part of params.yaml that has changed since."""
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
    return dict(read_yaml(RECEIPT)["stages"]) if RECEIPT.exists() else {}


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
