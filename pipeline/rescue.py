"""Give back to a variant that lost too much the 16 bits of the layers that lose most, and make that a variant too."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline import checkpoint, model_shape, params, params_text, plugins, processes, records, store, supervise
from pipeline.artifact_records import Manifest
from pipeline.errors import UserError, nearest
from pipeline.metrics.catalogue import BY_NAME
from pipeline.metrics.fidelity_catalogue import FIDELITY
from pipeline.metrics.quality_catalogue import QUALITY
from pipeline.params import Params
from pipeline.probes import placement
from pipeline.quality_records import FidelityText
from pipeline.quantizers import modules_named
from pipeline.records import Status, VariantDecision, Verdict
from pipeline.runs.sensitivity import Job, extra_bytes
from pipeline.sensitivity_records import Proposal

PROPOSALS = store.ARTIFACTS / "sensitivity"
"""What was measured last for each variant; no output of a stage, so that DVC leaves it alone."""
SHARE = 0.1
"""Of the bytes that quantizing saved, what is given back unless a budget is named."""
SKIP = "skip_modules"
MENDED = frozenset(
    name
    for metric in (BY_NAME["quality"], BY_NAME["quality_delta"], *QUALITY, *FIDELITY)
    for name in (metric.name, metric.low, metric.high)
    if name
)
"""Metrics that more bits can mend."""


def rescued(variant: str) -> str:
    """The name of the variant that is proposed."""
    return f"{variant}-rescued"


def require_entry(settings: Params, variant: str) -> None:
    """That params.yaml and the artifacts allow a rescue.

    Raises:
        UserError: with every reason why they do not.
    """
    if variant not in settings.variants:
        raise UserError(f"no variant {variant!r} in params.yaml; {nearest(variant, list(settings.variants))}")
    if variant == settings.baseline:
        raise UserError(f"{variant} is the baseline, to which the others are compared; name one of those")
    if found := [*_entry_problems(settings, variant), *_missing(variant, settings.baseline)]:
        raise UserError(found)


def _entry_problems(settings: Params, variant: str) -> Iterator[str]:
    quantizer = settings.variants[variant].quantizer
    if not _can_skip(quantizer):
        able = ", ".join(filter(_can_skip, plugins.names("pipeline.quantizers")))
        yield (
            f"{variant}: {quantizer} has no setting {SKIP}, so it cannot leave single layers in 16 bits; "
            f"quantizers that can: {able}"
        )
    if rescued(variant) in settings.variants:
        yield (
            f"params.yaml has a variant {rescued(variant)!r} already; run `dvc repro` to see where it stands, "
            "or take it out first"
        )


def _can_skip(quantizer: str) -> bool:
    return SKIP in plugins.load("pipeline.quantizers", quantizer).Settings.model_fields


def _missing(variant: str, baseline: str) -> Iterator[str]:
    folders = (store.BASE, store.artifact(baseline), store.artifact(variant))
    absent = [str(folder) for folder in folders if not checkpoint.is_complete(folder)]
    absent += [str(store.FIDELITY_PROMPT)] if not store.FIDELITY_PROMPT.exists() else []
    if absent:
        yield f"missing: {', '.join(absent)}. Run `dvc repro` first"


def require_need(decided: VariantDecision) -> None:
    """That more bits may mend what keeps the variant from being shipped.

    Raises:
        UserError: it passes, it failed altogether, or all that it fails is no matter of quality.
    """
    if decided.verdict is Verdict.PASS:
        raise UserError(f"{decided.variant} passes every gate; there is nothing to rescue")
    if decided.status is not Status.OK:
        raise UserError(f"{decided.variant} {decided.why}; mend that first, then `quantgate retry {decided.variant}`")
    open_gates = [gate for gate in decided.gates if gate.verdict is not Verdict.PASS]
    if not any(gate.metric in MENDED for gate in open_gates):
        raise UserError(f"{decided.variant} is held up by what more bits in some layers do not mend: {decided.why}")


def budget_bytes(
    artifact: Manifest, baseline: Manifest, extra_mib: float | None = None, max_size_ratio: float | None = None
) -> int:
    """Bytes that may be added to the artifact's weight files; by default `SHARE` of what quantizing saved.

    Args:
        max_size_ratio: weight files of the rescued variant over the baseline's, at most.

    Raises:
        UserError: both bounds are given, or what is given leaves nothing to add.
    """
    if extra_mib is not None and max_size_ratio is not None:
        raise UserError("--extra-mib and --max-size-ratio are two ways to say the same; give one of them")
    if extra_mib is not None:
        found = extra_mib * 2**20
    elif max_size_ratio is not None:
        found = max_size_ratio * baseline.weight_bytes - artifact.weight_bytes
    else:
        found = SHARE * (baseline.weight_bytes - artifact.weight_bytes)
    if not found > 0:
        ratio = artifact.weight_bytes / baseline.weight_bytes
        raise UserError(
            f"nothing may be added: {artifact.name} takes {ratio:.3f} × the weight bytes of {baseline.name} already; "
            "give a --max-size-ratio above that, or --extra-mib above 0"
        )
    return int(min(found, sys.maxsize))


def propose(settings: Params, variant: str, budget: int, tokens: int) -> Proposal:
    """Measure in a process of its own how much each part loses, or take that from the last time.

    Raises:
        UserError: the measurement failed, nothing is gained by more bits, or no part fits into the budget.
    """
    artifact = store.artifact(variant)
    if not any(extra > 0 for extra in extra_bytes(store.BASE, artifact).values()):
        raise UserError(
            f"{variant}: its weights are stored in 16 bits and quantized at each load, so that keeping layers is not "
            "paid for in the files; nothing can be weighed against it"
        )
    known = _known(variant, tokens)
    if known and known.budget_bytes == budget:
        return known
    runtime = settings.runtime
    job = Job(
        variant=variant,
        device=runtime.device,
        compute_dtype=runtime.compute_dtype.model_dump(),
        threads=runtime.threads,
        tokens=tokens,
        budget_bytes=budget,
        known=known.sensitivity if known else None,
    )
    result = supervise.run(
        "sensitivity",
        job,
        title=f"sensitivity {variant}",
        log=store.log("sensitivity", variant),
        timeout_s=settings.fidelity.timeout_s,
        environment=placement.environment(runtime.waiting, runtime.allocator),
        cores=runtime.cores,
    )
    if isinstance(result, supervise.Failure):
        raise UserError(f"{variant}: the layers could not be measured: {result.reason}")
    found = Proposal.model_validate(result)
    records.save(_path(variant), found)
    return found


def _path(variant: str) -> Path:
    return PROPOSALS / f"{variant}.json"


def _known(variant: str, tokens: int) -> Proposal | None:
    """The last measurement, where artifacts, text and number of tokens are still the same."""
    try:
        last = records.load(_path(variant), Proposal)
    except UserError:
        return None
    measured = last.sensitivity
    now = (
        checkpoint.read_manifest(store.artifact(variant)).artifact_sha256,
        checkpoint.read_manifest(store.BASE).artifact_sha256,
        records.load(store.FIDELITY_PROMPT, FidelityText).text_sha256,
        tokens,
    )
    then = (measured.artifact_sha256, measured.base_artifact_sha256, measured.text_sha256, measured.tokens)
    return last if now == then else None


def entry(raw: Mapping[str, Any], variant: str, proposal: Proposal) -> dict[str, Any]:
    """The new variant as it stands in params.yaml: the old one, with the kept modules left in 16 bits.

    Args:
        raw: the value of params.yaml.

    Raises:
        UserError: no part fits into the budget, or the quantizer says that the settings do not fit the model.
    """
    kept = {name for group in proposal.kept for name in group.modules}
    if not kept:
        worst = max(proposal.sensitivity.groups, key=lambda group: group.kld)
        raise UserError(
            f"{variant}: no part of the model fits into {proposal.budget_bytes / 2**20:.1f} MiB; the one that loses "
            f"most, {group_name(worst.modules)}, takes {worst.extra_bytes / 2**20:.1f} MiB more in 16 bits"
        )
    old = raw["variants"][variant]
    module = plugins.load("pipeline.quantizers", old["quantizer"])
    shape = model_shape.read(store.BASE)
    before = module.Settings.model_validate(old.get("settings", {})).skip_modules
    left = set(modules_named(before, shape.all_linears))
    added = [layer.name for layer in shape.all_linears if layer.name in kept - left]
    settings = {**old.get("settings", {}), SKIP: [*before, *added]}
    if problems := list(module.check(module.Settings.model_validate(settings), shape)):
        raise UserError(f"{rescued(variant)}: settings.{problem}" for problem in problems)
    return {**old, "settings": settings}


def apply(variant: str, wanted: Mapping[str, Any]) -> None:
    """Write the new variant into params.yaml behind the old one.

    Raises:
        UserError: the file's layout does not allow it, or the file would not be right.
    """
    text = store.PARAMS.read_text(encoding="utf-8")
    changed = params_text.with_variant(text, variant, rescued(variant), wanted)
    raw = params.read(store.PARAMS)
    raw["variants"][rescued(variant)] = dict(wanted)
    params.parse(raw)
    store.write_text(store.PARAMS, changed)


def reproduce() -> int:
    """Make and measure what params.yaml has and the records do not. Returns DVC's exit code."""
    return processes.run([sys.executable, "-m", "dvc", "repro"])


def group_name(modules: list[str]) -> str:
    """Modules of one part without what they share, as in `model.layers.3.self_attn: q_proj, k_proj, v_proj`."""
    split = [name.split(".") for name in modules]
    shared = 0
    while all(len(parts) > shared + 1 and parts[shared] == split[0][shared] for parts in split):
        shared += 1
    rest = ", ".join(".".join(parts[shared:]) for parts in split)
    return f"{'.'.join(split[0][:shared])}: {rest}" if len(modules) > 1 and shared else ", ".join(modules)
