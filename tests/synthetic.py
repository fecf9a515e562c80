"""Synthetic records with known numbers, made without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline import smoke_records, store
from pipeline.artifact_records import BaseModelInfo, QuantizeRecord
from pipeline.metrics import intervals
from pipeline.metrics.evidence import ScoredSet, Serving, VariantEvidence
from pipeline.metrics.sweep import Objective
from pipeline.quality_records import Block, FidelityRecord, FinishReason, Invariance, ItemResult, QualityRecord
from pipeline.readings import (
    Alternation,
    DeviceLimits,
    KvCache,
    LevelPeak,
    MemoryReadings,
    PairReading,
    ProcessReading,
    RequestReading,
    Side,
    SpeedRecord,
    Stop,
    WorkloadReadings,
)
from pipeline.records import (
    EngineInfo,
    Environment,
    GateVerdict,
    Status,
    VariantDecision,
    Verdict,
    known,
    missing,
)
from pipeline.smoke_records import SmokeRecord

MIB = 2**20
HEADLINE = "instruction"
EVAL_SET = "support-desk"
CATEGORIES = ("intent", "extraction", "policy")
PROCESSES = 3
SERVING = Serving(objective=Objective(ttft_s=0.5, tpot_s=0.1), memory_gib=4, price_per_hour=0.36, max_spread=0.25)
ENVIRONMENT = Environment(
    os="Linux 6.1",
    python="3.11.9",
    cpu="Some CPU",
    cpu_cores=2,
    memory_bytes=8 * 2**30,
    gpus=[],
    gpu_reason="no NVIDIA driver",
    packages={"torch": "2.13.0"},
)


def variant_decision(variant: str, verdict: Verdict, gates: Sequence[GateVerdict], **changes: Any) -> VariantDecision:
    """What was decided about a variant that works and was not ranked."""
    unscored = missing("not ranked here")
    fields: dict[str, Any] = {
        "status": Status.OK,
        "on_frontier": False,
        "dominated_by": [],
        "score": unscored,
        "score_ci_low": unscored,
        "score_ci_high": unscored,
        "tied_with": [],
        "why": "",
    }
    return VariantDecision(variant=variant, verdict=verdict, gates=list(gates), **(fields | changes))


@dataclass(frozen=True)
class Build:
    """Builders of records; every argument has a plausible value."""

    environment: Environment

    def item(self, item_id: str, score: float, **changes: Any) -> ItemResult:
        fields: dict[str, Any] = {
            "item_id": item_id,
            "category": CATEGORIES[sum(map(ord, item_id)) % len(CATEGORIES)],
            "critical": False,
            "prompt_sha256": store.sha256_text(item_id),
            "prompt": f"Question {item_id}: which topic is this?",
            "target": {"answer": "delivery", "choices": ["delivery", "invoice"]},
            "output": "delivery" if score == 1 else "invoice",
            "score": score,
            "passed": score == 1,
            "finish_reason": FinishReason.STOP,
            "output_tokens": 3,
        }
        return ItemResult(**(fields | changes))

    def items(self, scores: Sequence[float]) -> tuple[ItemResult, ...]:
        return tuple(self.item(f"item-{place:03}", score) for place, score in enumerate(scores))

    def engine(self, **changes: Any) -> EngineInfo:
        fields: dict[str, Any] = {
            "name": "transformers",
            "packages": {"torch": "2.13.0", "transformers": "5.9.0"},
            "device": "cpu",
            "device_name": "CPU",
            "compute_dtype": "bfloat16",
            "threads": 2,
            "kernels": {"Linear": 210},
            "attention": "sdpa",
        }
        return EngineInfo(**(fields | changes))

    def scored(
        self, variant: str, items: Sequence[ItemResult], eval_set: str = EVAL_SET, weight: float = 1, **changes: Any
    ) -> ScoredSet:
        names = dict.fromkeys(item.category for item in items)
        fields: dict[str, Any] = {
            "variant": variant,
            "status": Status.OK,
            "eval_set": eval_set,
            "eval_set_version": "1.0.0",
            "eval_set_sha256": store.sha256_text(eval_set),
            "artifact_sha256": store.sha256_text(variant),
            "engine": self.engine(),
            "decoding": {"method": "greedy"},
            "overall": intervals.mean_interval(items, 0),
            "categories": {
                name: intervals.mean_interval([item for item in items if item.category == name], 0) for name in names
            },
            "finish_reasons": {FinishReason.STOP: len(items) - 1, FinishReason.LENGTH: 1},
            "flaws": {},
            "over_context": [],
            "invariance": Invariance(items=24, differing=1, flips=[]),
        }
        return ScoredSet(QualityRecord(**(fields | changes)), tuple(items), weight)

    def request(self, ttft_s: float = 0.1, tpot_s: float = 0.05, tokens: int = 32, **changes: Any) -> RequestReading:
        """Tokens at equal gaps; both threads of the worker are busy all the time."""
        token_s = [ttft_s + tpot_s * place for place in range(tokens)]
        fields: dict[str, Any] = {
            "token_s": token_s,
            "cpu_s": (2 * token_s[0], 2 * token_s[-1]),
            "prefill_s": 0.9 * ttft_s,
        }
        return RequestReading(**(fields | changes))

    def pairs(
        self, variant: RequestReading, baseline: RequestReading | None, processes: int = PROCESSES, each: int = 7
    ) -> list[PairReading]:
        """Pairs alike: `each` of them in every pair of processes."""
        return [
            PairReading(process=process, variant_first=turn % 2 == 0, variant=variant, baseline=baseline)
            for process in range(processes)
            for turn in range(each)
        ]

    def workload(
        self,
        name: str = HEADLINE,
        ttft_s: float = 0.1,
        tpot_s: float = 0.05,
        *,
        baseline_ttft_s: float = 0.1,
        baseline_tpot_s: float = 0.05,
        **changes: Any,
    ) -> WorkloadReadings:
        """21 pairs alike, 7 in each of 3 pairs of processes; 200 prompt tokens, 32 output tokens, one stream."""
        fields: dict[str, Any] = {
            "workload": name,
            "concurrency": 1,
            "prompt_tokens": 200,
            "output_tokens": 32,
            "prompt_sha256": store.sha256_text(name),
            "pairs": self.pairs(self.request(ttft_s, tpot_s), self.request(baseline_ttft_s, baseline_tpot_s)),
        }
        return WorkloadReadings(**(fields | changes))

    def process(
        self, number: int = 0, side: Side = Side.VARIANT, peaks: Sequence[LevelPeak] = (), **changes: Any
    ) -> ProcessReading:
        """A process that was quiet while it was idle, on a CPU."""
        no_gpu = missing("no CUDA device")
        largest = max((peak.peak_bytes.value or 0.0 for peak in peaks), default=900.0 * MIB)
        fields: dict[str, Any] = {
            "process": number,
            "side": side,
            "load_s": 1.5,
            "peaks": list(peaks),
            "memory": MemoryReadings(
                weight_bytes=known(257 * MIB),
                process_load_peak_bytes=known(largest),
                process_run_peak_bytes=known(largest),
                allocator_peak_bytes=no_gpu,
                allocator_reserved_peak_bytes=no_gpu,
                nvml_process_bytes=no_gpu,
            ),
            "alternation": Alternation.RESIDENT,
            "swap_bytes": known(0),
            "idle_cpu_share": known(0.001),
            "foreign_gpu_processes": no_gpu,
            "throttled_share": no_gpu,
        }
        return ProcessReading(**(fields | changes))

    def peak(self, workload: WorkloadReadings, peak_bytes: float) -> LevelPeak:
        return LevelPeak(
            workload=workload.workload,
            concurrency=workload.concurrency,
            tokens=workload.concurrency * (workload.prompt_tokens + workload.output_tokens),
            peak_bytes=known(peak_bytes),
        )

    def speed(
        self, variant: str, workloads: Sequence[WorkloadReadings] = (), peak_bytes: int = 900 * MIB, **changes: Any
    ) -> SpeedRecord:
        """Measured against `fp16` in 3 pairs of processes; every workload has the same peak."""
        measured = list(workloads) or [self.workload()]
        peaks = [self.peak(workload, peak_bytes) for workload in measured]
        fields: dict[str, Any] = {
            "variant": variant,
            "status": Status.OK,
            "baseline": "fp16",
            "artifact_sha256": store.sha256_text(variant),
            "baseline_artifact_sha256": store.sha256_text("fp16"),
            "engine": self.engine(),
            "environment_sha256": store.sha256_text(store.to_json(self.environment.model_dump(mode="json"))),
            "seed": 0,
            "alternation": Alternation.RESIDENT,
            "stop": Stop.PRECISE,
            "measured_s": 60.0,
            "decode_weight_bytes": 257 * MIB,
            "parameters": 134_515_008,
            "workloads": measured,
            "processes": [self.process(number, side, peaks) for number in range(PROCESSES) for side in Side],
            "kv_cache": KvCache(
                layers=30, kv_heads=3, head_dim=64, bytes_per_element=2, measured_tokens=200, measured_bytes=200 * 23040
            ),
            "limits": DeviceLimits(
                bytes_per_s={"copy": 18e9, "add": 19e9, "read": 20e9}, array_bytes=2**28, flops_per_s=known(5e11)
            ),
        }
        return SpeedRecord(**(fields | changes))

    def block(self, nll: float = 2.0, baseline_nll: float = 2.0, kld: float = 0.0, agreed: int = 64) -> Block:
        """64 tokens; nll and kld are means over them."""
        return Block(tokens=64, nll=64 * nll, baseline_nll=64 * baseline_nll, kld=64 * kld, agreed=agreed)

    def fidelity(self, variant: str, blocks: Sequence[Block] = (), **changes: Any) -> FidelityRecord:
        """Compared with `fp16`; 32 blocks at which nothing differs."""
        fields: dict[str, Any] = {
            "variant": variant,
            "status": Status.OK,
            "text": "fidelity/general.txt",
            "text_sha256": store.sha256_text("fidelity"),
            "window_tokens": 512,
            "artifact_sha256": store.sha256_text(variant),
            "baseline_artifact_sha256": store.sha256_text("fp16"),
            "engine": self.engine(),
            "blocks": list(blocks) or [self.block()] * 32,
            "kld_p99": 0.0,
            "kld_max": 0.0,
        }
        return FidelityRecord(**(fields | changes))

    def smoke(self, variant: str, **changes: Any) -> SmokeRecord:
        """Passed; 50 texts told nothing apart."""
        fields: dict[str, Any] = {
            "variant": variant,
            "status": Status.OK,
            "artifact_sha256": store.sha256_text(variant),
            "base_artifact_sha256": store.sha256_text("base"),
            "texts_sha256": store.sha256_text("texts"),
            "engine": self.engine(),
            "checks": [smoke_records.passed("load", "loads in a fresh process")],
        }
        return SmokeRecord(**(fields | changes))

    def quantize(self, variant: str, weight_bytes: int = 257 * MIB, **changes: Any) -> QuantizeRecord:
        fields: dict[str, Any] = {
            "variant": variant,
            "status": Status.OK,
            "quantizer": "fp16",
            "base": BaseModelInfo(
                name="Tiny", source="here", revision="abc123", licence="Apache-2.0", provenance="made for a test"
            ),
            "tokenizer_sha256": store.sha256_text("tokenizer"),
            "artifact_sha256": store.sha256_text(variant),
            "weight_bytes": weight_bytes,
            "bits_per_weight": 16 * weight_bytes / (257 * MIB),
            "wall_s": 12.0,
            "peak_process_bytes": known(500 * MIB),
        }
        return QuantizeRecord(**(fields | changes))

    def evidence(
        self,
        variant: str = "fp16",
        scores: Sequence[float] = (1, 1, 1, 0),
        *,
        baseline: VariantEvidence | None = None,
        tpot_s: float = 0.05,
        weight_bytes: int = 257 * MIB,
        peak_bytes: int = 900 * MIB,
    ) -> VariantEvidence:
        """The baseline it was measured in alternation with has a TPOT of 50 ms."""
        speed = self.speed(variant, [self.workload(tpot_s=tpot_s)], peak_bytes)
        return VariantEvidence(
            variant=variant,
            quantize=self.quantize(variant, weight_bytes),
            smoke=self.smoke(variant),
            speed=speed,
            quality=(self.scored(variant, self.items(scores)),),
            fidelity=self.fidelity(variant),
            headline=HEADLINE,
            sweep_workload=HEADLINE,
            context_length=8192,
            serving=SERVING,
            limits=(speed.limits,) if speed.limits else (),
            baseline=baseline,
        )

    def collapsed(self, variant: str) -> VariantEvidence:
        """Made, and stopped by the smoke gate, so that nothing was measured."""
        reason = "collapsed: KLD 9.8 (at most 3), top-1 agreement 0.1 % (at least 20 %)"
        check = smoke_records.failed("distributions", reason)
        smoke = self.smoke(variant, status=Status.INVALID, reason=reason, checks=[check])
        lost = self.failed(variant)
        return replace(lost, quantize=self.quantize(variant), smoke=smoke)

    def failed(self, variant: str, reason: str = "out of memory") -> VariantEvidence:
        """Quantizing failed, and what came after had nothing to work on."""
        lost: dict[str, Any] = {"variant": variant, "status": Status.FAILED}
        after = "there is no artifact"
        return VariantEvidence(
            variant=variant,
            quantize=QuantizeRecord(
                **lost, reason=reason, quantizer="fp16", wall_s=3.0, peak_process_bytes=missing("the process died")
            ),
            smoke=SmokeRecord(**lost, reason=after),
            speed=SpeedRecord(**lost, reason=after),
            quality=(ScoredSet(QualityRecord(**lost, reason=after, eval_set=EVAL_SET), (), 1),),
            fidelity=FidelityRecord(**lost, reason=after),
            headline=HEADLINE,
        )
