"""What tests/e2e/test_llama_cpp.py has done under the toolchain's Python: `ASKED TOLD`, two files.

ASKED is JSON: `artifact`, `dtype`, `threads`, and `calls`, each the name of a session's method and its arguments. TOLD
is a folder that gets `told.json`, the answers in order; an array is written beside it, and its file named.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy
from pydantic import BaseModel

from pipeline.engines import EngineOptions, Question, llama_cpp


def main(asked_path: str, told_path: str) -> None:
    asked, told = json.loads(Path(asked_path).read_text()), Path(told_path)
    session = llama_cpp.load(Path(asked["artifact"]), EngineOptions("cpu", asked["dtype"], asked["threads"]))
    answers = []
    for number, (name, arguments) in enumerate(asked["calls"]):
        try:
            answers.append(plain(getattr(session, name)(*map(question, arguments)), told / f"{number}.npy"))
        except (ValueError, RuntimeError) as error:
            answers.append({"raised": f"{type(error).__name__}: {error}"})
    (told / "told.json").write_text(json.dumps(answers))


def question(argument: Any) -> Any:
    """The argument; lists of objects are questions."""
    if isinstance(argument, list) and argument and isinstance(argument[0], dict):
        return [Question(**fields) for fields in argument]
    return argument


def plain(value: Any, path: Path) -> Any:
    if isinstance(value, numpy.ndarray):
        numpy.save(path, value)
        return str(path)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, list):
        return [plain(inner, path) for inner in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


if __name__ == "__main__":
    main(*sys.argv[1:])
