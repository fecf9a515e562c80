"""The process in which one variant is quantized, measured or scored: `python -m pipeline.worker RUN JOB RESULT`.

RUN is a module of pipeline.runs with a pydantic model `Job` and a function `run(job) -> Record`. RESULT gets
{"record": …}, {"failed": reason} or {"user_error": [problem, …]}. A process that dies leaves none.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

from pipeline import store
from pipeline.errors import UserError, brief


def main(run: str, job_path: str, result_path: str) -> None:
    store.write_json(Path(result_path), _result(run, Path(job_path)))


def _result(run: str, job_path: Path) -> dict[str, Any]:
    try:
        module = importlib.import_module(f"pipeline.runs.{run}")
        job = module.Job.model_validate_json(job_path.read_text(encoding="utf-8"))
        return {"record": module.run(job).model_dump(mode="json")}
    except UserError as error:
        return {"user_error": list(error.problems)}
    except Exception as error:
        # Whatever goes wrong inside a library is this variant's result; the others go on.
        traceback.print_exc()
        return {"failed": brief(error)}


if __name__ == "__main__":
    main(*sys.argv[1:])
