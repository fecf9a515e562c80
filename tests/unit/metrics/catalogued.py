"""A metric of the catalogue by its name, for tests of what it is made from."""

from __future__ import annotations

from pipeline.metrics.catalogue import BY_NAME
from pipeline.metrics.evidence import VariantEvidence
from pipeline.records import Reading


def value(name: str, evidence: VariantEvidence) -> Reading:
    return BY_NAME[name].compute(evidence)
