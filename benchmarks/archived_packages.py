"""auto-gptq and autoawq against GPTQModel: perplexity of what each makes of the base, at the same settings and samples.

The settings are those of the variants in params.yaml that GPTQModel makes, as far as the archived packages have them;
what GPTQModel does beyond them is turned off. Each quantizes in a worker in its own environment, as in `dvc repro`; the
archived packages' is made where it is missing. Perplexity is taken on the fidelity text, and one question is answered,
to see that the text is sane. What a variant of the project holds already, made of the same base with the same settings,
is not made again.

    python benchmarks/archived_packages.py [--only autoawq] [--set clip_search=false …]

Run it in a project folder whose base model and prompts are made (`dvc repro base prompts`). The last line is JSON: for
each archived package, the perplexity of its artifact / that of GPTQModel's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pipeline import checkpoint, params, plugins, processes, records, store, supervise
from pipeline.engines import EngineOptions, transformers
from pipeline.metrics import divergence
from pipeline.params import Params
from pipeline.probes import device, placement
from pipeline.quality_records import FidelityText
from pipeline.runs.quantize import Job
from pipeline.tokenizer import Tokenizer
from pipeline.toolchains import environments

SUCCESSORS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "auto_gptq": ("gptqmodel_gptq", {"act_group_aware": False}),
    "autoawq": ("gptqmodel_awq", {}),
}
"""Archived package → the quantizer that does the same with GPTQModel, and what of it the package does not have."""
QUESTION = "What is the capital of France?"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(SUCCESSORS), nargs="+", default=sorted(SUCCESSORS))
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="of the archived packages' settings")
    asked = parser.parse_args()
    processes.exit_on_signals()
    changes = {name: yaml.safe_load(value) for name, _, value in (text.partition("=") for text in asked.set)}
    settings = params.load()
    runtime = settings.runtime
    on = device.resolve(runtime.device)
    options = EngineOptions(on, runtime.compute_dtype.model_dump()[on], runtime.threads)
    windows = records.load(store.FIDELITY_PROMPT, FidelityText).windows
    base = perplexity("base", store.BASE, windows, options)
    ratios = {}
    for name in asked.only:
        successor, unlike = SUCCESSORS[name]
        wanted = {**variant_settings(settings, successor), **changes}
        found = []
        for quantizer, given in ((name, wanted), (successor, {**wanted, **unlike})):
            with tempfile.TemporaryDirectory(prefix="quantgate-archived-") as folder:
                own = own_settings(quantizer, given)
                made = made_before(quantizer, own) or quantize(settings, quantizer, own, Path(folder))
                describe(quantizer, made)
                found.append(perplexity(quantizer, made, windows, options))
        print(f"{name}: {found[0] / base:.4f} times the base's perplexity, {successor} {found[1] / base:.4f} times")
        ratios[f"{name}_ppl_ratio"] = round(found[0] / found[1], 4)
    print(json.dumps(ratios))


def variant_settings(settings: Params, quantizer: str) -> Mapping[str, Any]:
    """Of the first variant in params.yaml that this quantizer makes, defaults included: they differ between the two."""
    found = [variant.settings for variant in settings.variants.values() if variant.quantizer == quantizer]
    return (
        own_settings(quantizer, found[0]) if found else sys.exit(f"params.yaml has no variant of {quantizer}; add one")
    )


def own_settings(quantizer: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the given settings that the quantizer has, and its defaults."""
    kind = plugins.load("pipeline.quantizers", quantizer).Settings
    found = kind.model_validate({name: value for name, value in given.items() if name in kind.model_fields})
    return dict(found.model_dump(mode="json"))


def made_before(quantizer: str, own: Mapping[str, Any]) -> Path | None:
    """The artifact of a variant of this project that `quantize` would make again."""
    base = checkpoint.read_manifest(store.BASE).base
    toolchain = plugins.load("pipeline.quantizers", quantizer).TOOLCHAIN
    for folder in filter(checkpoint.is_complete, sorted(store.artifact("any").parent.glob("*"))):
        made = checkpoint.read_manifest(folder)
        if (made.quantizer, made.settings, made.base, made.toolchain) == (quantizer, own, base, toolchain):
            return folder
    return None


def quantize(settings: Params, quantizer: str, own: Mapping[str, Any], project: Path) -> Path:
    """Quantize the base in a project folder of its own; returns the artifact."""
    module = plugins.load("pipeline.quantizers", quantizer)
    for place in (store.BASE, store.CALIBRATION):
        (project / place).parent.mkdir(parents=True, exist_ok=True)
        (project / place).symlink_to(place.resolve())
    runtime = settings.runtime
    job = Job(
        variant=quantizer.replace("_", "-"),
        quantizer=quantizer,
        settings=dict(own),
        device=runtime.device,
        compute_dtype=runtime.compute_dtype.model_dump(),
        threads=runtime.threads,
        seed=settings.seed,
    )
    log = store.log("quantize", quantizer)
    with contextlib.chdir(project):
        out = store.artifact(job.variant)
        out.mkdir(parents=True)
        result = supervise.run(
            "quantize",
            job,
            title=quantizer,
            log=log,
            timeout_s=settings.quantize.timeout_s,
            environment={**placement.environment(runtime.waiting, settings.quantize.allocator), **module.ENVIRONMENT},
            cores=runtime.cores,
            python=environments.python_for("pipeline.quantizers", quantizer),
        )
        if isinstance(result, supervise.Failure):
            sys.exit(f"{quantizer}: {result.reason}\n{log.read_text(encoding='utf-8')[-4000:]}")
    print(
        f"{quantizer}: made in {result['wall_s']:.0f} s, peak {result['peak_process_bytes']['value'] / 2**20:.0f} MiB",
        flush=True,
    )
    return project / out


def describe(quantizer: str, artifact: Path) -> None:
    made = checkpoint.read_manifest(artifact)
    assert made.calibration is not None
    print(
        f"{quantizer}: {artifact}, {made.settings}, calibrated on {made.calibration.sha256[:12]}, "
        f"{made.weight_bytes / 1e6:.1f} MB, {made.bits_per_weight:.2f} bits per weight, artifact "
        f"{made.artifact_sha256[:12]}",
        flush=True,
    )


def perplexity(label: str, artifact: Path, windows: list[list[int]], options: EngineOptions) -> float:
    """exp of the mean negative log-likelihood of the text's tokens but each window's first."""
    session = transformers.load(artifact, options)
    total, tokens = 0.0, 0
    for window in windows:
        logits = session.next_token_logits(window)[:-1]
        total += float(divergence.compare(logits, logits, window[1:]).nll.sum())
        tokens += len(window) - 1
    tokenizer = Tokenizer(store.BASE)
    prompt = tokenizer.chat([{"role": "user", "content": QUESTION}], add_generation_prompt=True)
    [answer] = session.generate([prompt], 32)
    found = math.exp(total / tokens)
    print(
        f"{label}: perplexity {found:.4f} on {tokens} tokens; answers {tokenizer.decode(answer.token_ids)!r}",
        flush=True,
    )
    return found


if __name__ == "__main__":
    main()
