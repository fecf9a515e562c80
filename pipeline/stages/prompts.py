"""Tokenize eval items, speed workloads and the fidelity text in a fresh process, once for all variants."""

from __future__ import annotations

from pipeline import params, store, supervise
from pipeline.errors import UserError
from pipeline.runs.prompts import FidelityJob, Job, SmokeJob, WorkloadJob
from pipeline.stages import _main


def main() -> None:
    settings = params.load()
    workloads = settings.benchmark.workloads.items()
    result = supervise.run(
        "prompts",
        Job(
            eval_sets=list(settings.eval_sets),
            workloads={name: WorkloadJob(**workload.model_dump()) for name, workload in workloads},
            fidelity=FidelityJob(**settings.fidelity.model_dump(exclude={"timeout_s"})),
            smoke=SmokeJob(**settings.smoke.model_dump(include={"texts", "tokens", "prompts"})),
        ),
        title="prompts",
        log=store.log("prompts", "all"),
        timeout_s=settings.evaluate.timeout_s,
        environment={},
    )
    if isinstance(result, supervise.Failure):
        raise UserError(f"the prompts could not be made: {result.reason}")


if __name__ == "__main__":
    _main.run(main)
