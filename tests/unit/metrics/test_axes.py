from __future__ import annotations

import pytest

from pipeline.errors import UserError
from pipeline.metrics.axes import METRIC_NAMES, Axis, Plain, parse_axis, unknown_part
from pipeline.metrics.catalogue import BY_NAME
from pipeline.metrics.scope import Scope


@pytest.mark.parametrize(
    ("text", "scope", "title"),
    [
        ("speedup", Scope(), "Decode speed vs baseline"),
        ("speedup@code", Scope(workload="code"), "Decode speed vs baseline, code"),
        ("speedup@code:8", Scope(workload="code", concurrency=8), "Decode speed vs baseline, code at 8 streams"),
        ("quality@zh-support", Scope(eval_set="zh-support"), "Quality, zh-support"),
        ("quality@zh-support/a/b", Scope(eval_set="zh-support", category="a/b"), "Quality, zh-support/a/b"),
        ("worst_category_delta@zh", Scope(eval_set="zh"), "Worst category vs baseline, zh"),
    ],
)
def test_a_name_and_its_axis_are_one_to_one(text, scope, title):
    axis = parse_axis(text)
    assert (axis.metric.name, axis.scope, axis.title) == (text.partition("@")[0], scope, title)
    assert axis.name == text
    assert parse_axis(f"  {text} ") == axis


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("qualty", "'qualty': no metric 'qualty' that variants can be compared on; did you mean 'quality'?"),
        ("knee_concurrency", "no metric 'knee_concurrency' that variants can be compared on"),
        ("speedup_ci_low", "no metric 'speedup_ci_low' that variants can be compared on"),
        ("flips_lost", "no metric 'flips_lost' that variants can be compared on"),
        ("speedup@", "'speedup@': give a workload or an eval set after the @, or leave it out"),
        ("weight_bytes@code", "'weight_bytes@code': weight_bytes has no parts; leave out @code"),
        ("speedup@code:x", "'speedup@code:x': 'x' is no number of streams; give a whole number of 1 or more"),
        ("speedup@code:0", "'0' is no number of streams"),
        ("speedup@code:", "'' is no number of streams"),
        ("worst_category_delta@zh/a", "category: worst_category_delta is not of one category"),
    ],
)
def test_what_is_no_axis_is_told(text, told):
    with pytest.raises(UserError) as caught:
        parse_axis(text)
    assert told in caught.value.problems[0]


def test_rates_and_times_are_judged_by_their_ratio_measured_in_turns():
    judged = {name: Axis(BY_NAME[name]).judged_by.name for name in METRIC_NAMES}
    assert {name: by for name, by in judged.items() if name != by} == {
        "decode_tokens_per_s": "speedup",
        "tpot_s_p50": "speedup",
        "ttft_s_p50": "ttft_speedup",
        "aggregate_tokens_per_s": "aggregate_speedup",
        "cost_per_million_tokens": "aggregate_speedup",
        "decode_cost_s_per_token": "decode_cost_ratio",
        "perplexity": "ppl_ratio",
    }
    assert parse_axis("tpot_s_p50@code:8").judged_by == parse_axis("speedup@code:8")
    assert not parse_axis("tpot_s_p50").higher_is_better
    assert parse_axis("weight_bytes").show(2**20) == "1.00 MiB"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("speedup@code", ""),
        ("speedup@code:2", ""),
        ("speedup@cod", "no workload 'cod'; did you mean 'code'?"),
        ("speedup@code:3", "code is measured with these numbers of streams only: 1, 2"),
        ("speedup@chat:3", ""),
        ("quality@zh", ""),
        ("quality@zh/a", ""),
        ("quality@desk/any", ""),
        ("quality@zhh", "no eval set 'zhh'; did you mean 'zh'?"),
        ("quality@zh/b", "zh has no category 'b'; allowed: a"),
    ],
)
def test_what_is_not_there_is_told(text, told):
    levels = {"code": {2, 1}, "chat": set()}
    assert unknown_part(parse_axis(text), levels, {"zh": {"a"}, "desk": set()}) == told


def test_what_is_not_known_is_not_asked():
    assert unknown_part(parse_axis("speedup@code:3"), {}, {}) == unknown_part(parse_axis("quality@zh"), {}, {}) == ""


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("speedup@instruction", "speedup"),
        ("speedup@instruction:1", "speedup"),
        ("speedup@instruction:8", "speedup@instruction:8"),
        ("speedup@code:4", "speedup@code"),
        ("speedup@code", "speedup@code"),
        ("quality@zh", "quality@zh"),
        ("weight_bytes", "weight_bytes"),
    ],
)
def test_one_reading_has_one_name(name: str, plain: str):
    found = Plain("instruction", {"instruction": 1, "code": 4}, ("en", "zh"))
    assert found(parse_axis(name)).name == plain


def test_a_single_eval_set_is_all_of_them():
    found = Plain("instruction", {}, ("zh",))
    assert found(parse_axis("quality@zh")).name == "quality"
    assert found(parse_axis("quality@zh/policy")).name == "quality@zh/policy"
