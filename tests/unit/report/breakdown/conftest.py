from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from synthetic import Build

from pipeline.metrics.evidence import VariantEvidence
from pipeline.params import Params
from pipeline.readings import WorkloadReadings
from pipeline.report import gather

Gathered = tuple[Params, tuple[VariantEvidence, ...]]


@pytest.fixture
def gathered(project) -> Callable[..., Gathered]:
    """The evidence as it is read back, with what params.yaml says, for these variants; the first is the baseline."""

    def read(*variants: VariantEvidence) -> Gathered:
        params = project.write(*variants)
        return params, gather.gather(params).variants

    return read


@pytest.fixture
def measured(build: Build) -> Callable[..., VariantEvidence]:
    """A variant with these workloads, and with any other field of its speed record."""

    def make(name: str, *workloads: WorkloadReadings, **changes) -> VariantEvidence:
        return replace(build.evidence(name), speed=build.speed(name, workloads, **changes))

    return make
