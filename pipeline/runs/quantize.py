"""Make one artifact: check the shapes, tokenize the calibration texts, quantize, complete the folder, hash it."""

from __future__ import annotations

import shutil
import time
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline import calibration, checkpoint, model_shape, plugins, store
from pipeline.artifact_records import QuantizeRecord
from pipeline.errors import UserError
from pipeline.probes import device, process
from pipeline.quantizers import QuantizeJob
from pipeline.records import Status
from pipeline.tokenizer import Tokenizer


class Job(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    quantizer: str
    settings: dict[str, Any]
    device: str
    compute_dtype: dict[str, str]
    """Device → torch dtype."""
    threads: int
    seed: int


def run(job: Job) -> QuantizeRecord:
    """Write the artifact of one variant, manifest last.

    Raises:
        UserError: the settings do not fit the model, or the calibration set is too small.
    """
    start = time.monotonic()
    quantizer = plugins.load("pipeline.quantizers", job.quantizer)
    settings = quantizer.Settings.model_validate(job.settings)
    model = model_shape.read(store.BASE)
    found = quantizer.check(settings, model)
    if found:
        raise UserError(f"variants.{job.variant}.settings.{problem}" for problem in found)
    tokens = _calibration_tokens(settings)
    on = device.resolve(job.device)
    device.set_threads(on, job.threads)
    out = store.artifact(job.variant)
    if tokens:
        print(f"calibrating on {tokens.use.samples_kept} samples, {tokens.use.tokens} tokens", flush=True)
    done = quantizer.quantize(
        QuantizeJob(
            base=store.BASE,
            out=out,
            settings=settings,
            calibration=tokens.token_ids if tokens else [],
            device=on,
            compute_dtype=job.compute_dtype[on],
            seed=job.seed,
        )
    )
    _copy_tokenizer(store.BASE, out)
    base = checkpoint.read_manifest(store.BASE)
    manifest = checkpoint.write_manifest(
        out,
        name=job.variant,
        base=base.base,
        quantizer=job.quantizer,
        settings=settings.model_dump(mode="json"),
        packages=checkpoint.package_versions(quantizer.PACKAGES),
        format=quantizer.FORMAT,
        parameters=base.parameters,
        quantized_modules=done.modules,
        unquantized_modules={linear.name for linear in model.all_linears} - set(done.modules),
        attempts=done.attempts,
        at_load=done.at_load,
        toolchain=quantizer.TOOLCHAIN,
        calibration=tokens.use if tokens else None,
    )
    return QuantizeRecord(
        variant=job.variant,
        status=Status.OK,
        quantizer=job.quantizer,
        base=manifest.base,
        tokenizer_sha256=manifest.tokenizer_sha256,
        chat_template_sha256=manifest.chat_template_sha256,
        artifact_sha256=manifest.artifact_sha256,
        weight_bytes=manifest.weight_bytes,
        bits_per_weight=manifest.bits_per_weight,
        calibration=manifest.calibration,
        quantized_modules=manifest.quantized_modules,
        unquantized_modules=manifest.unquantized_modules,
        attempts=manifest.attempts,
        at_load=manifest.at_load,
        toolchain=manifest.toolchain,
        wall_s=time.monotonic() - start,
        peak_process_bytes=process.peak_bytes(),
        peak_gpu_bytes=device.allocator_reserved_peak_bytes(on),
    )


def _calibration_tokens(settings: Any) -> calibration.CalibrationTokens | None:
    wanted = getattr(settings, "calibration", None)
    return calibration.tokenize(wanted, Tokenizer(store.BASE)) if wanted else None


def _copy_tokenizer(base: Path, out: Path) -> None:
    """Give the artifact the base's own tokenizer, chat template and generation config, byte for byte.

    Libraries rewrite these files on saving, and a changed template or end token would be measured as lost quality.
    """
    for name in chain(*checkpoint.TAKEN_OVER.values()):
        if (base / name).is_file():
            shutil.copyfile(base / name, out / name)
        elif (out / name).exists():
            (out / name).unlink()
