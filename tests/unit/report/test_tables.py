from __future__ import annotations

import csv
import io

import pytest

from pipeline.report import tables
from pipeline.report.analysis import analyse

HEADER = (
    "variant,status,reason,engine,quality,quality_ci_low,quality_ci_high,quality_delta,delta_ci_low,delta_ci_high,"
    "flips_lost,flips_won,decode_tokens_per_s,speedup,speedup_ci_low,speedup_ci_high,ttft_s_p50,ttft_s_p95,tpot_s_p50,"
    "tpot_s_p95,weight_bytes,peak_memory_bytes,cost_per_million_tokens,frontier,artifact_sha256"
)


def test_columns_stand_in_the_promised_order(project, four_variants):
    text = tables.pareto_csv(analyse(project.write(*four_variants)).rows)
    header = text.splitlines()[0]
    assert header == (
        HEADER + ",ttft_speedup,ttft_speedup_ci_low,ttft_speedup_ci_high,aggregate_speedup,aggregate_speedup_ci_low,"
        "aggregate_speedup_ci_high,decode_cost_ratio,decode_cost_ratio_ci_low,"
        "decode_cost_ratio_ci_high,decode_cost_s_per_token,aggregate_tokens_per_s,prefill_tokens_per_s,"
        "end_to_end_tokens_per_s,"
        "ttft_s_p95_ci_low,ttft_s_p95_ci_high,tpot_s_p95_ci_low,tpot_s_p95_ci_high,ttft_s_p99,ttft_s_p99_ci_low,"
        "ttft_s_p99_ci_high,tpot_s_p99,tpot_s_p99_ci_low,tpot_s_p99_ci_high,itl_s_p50,itl_s_p95,itl_s_p99,goodput_requests_per_s,knee_concurrency,best_aggregate_tokens_per_s,"
        "mbu,kv_bytes_per_token,cost_per_passing_answer,bits_per_weight,load_s,quantize_s,length_finish_share,"
        "empty_outputs,refusals,degenerate_outputs,over_context_items,critical_regressions,worst_category_delta,"
        "worst_category_delta_ci_low,worst_category_delta_ci_high,failure_rate,failure_rate_ci_low,failure_rate_ci_high,"
        "ppl_ratio,ppl_ratio_ci_low,ppl_ratio_ci_high,"
        "kld_mean,kld_mean_ci_low,kld_mean_ci_high,"
        "top1_agreement,top1_agreement_ci_low,top1_agreement_ci_high,perplexity,kld_p99,kld_max"
    )


def test_missing_numbers_are_empty_cells_and_bytes_are_whole(project, four_variants):
    text = tables.pareto_csv(analyse(project.write(*four_variants)).rows)
    lines = {line["variant"]: line for line in csv.DictReader(io.StringIO(text))}
    assert lines["int4-gptq"]["weight_bytes"] == str(90 * 2**20)
    assert lines["int4-gptq"]["frontier"] == "true"
    assert float(lines["int4-gptq"]["speedup"]) == pytest.approx(1.25)
    assert float(lines["int4-gptq"]["speedup_ci_low"]) == pytest.approx(1.25 / 1.02839, rel=1e-5)
    assert float(lines["int4-gptq"]["speedup_ci_high"]) == pytest.approx(1.25 * 1.02839, rel=1e-5)
    assert [lines["fp16"][f"speedup{end}"] for end in ("", "_ci_low", "_ci_high")] == ["1"] * 3
    failed = lines["int4-awq"]
    assert (failed["status"], failed["reason"], failed["frontier"]) == ("failed", "quantize: out of memory", "false")
    assert failed["quality"] == failed["artifact_sha256"] == failed["empty_outputs"] == ""


def test_metrics_leave_out_what_is_missing(project, four_variants):
    rows = analyse(project.write(*four_variants)).rows
    assert tables.metrics_json(rows[3]) == {"status": "failed"}
    assert tables.metrics_json(rows[0])["decode_tokens_per_s"] == 20
