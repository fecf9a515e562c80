from __future__ import annotations

from pipeline.report.analysis import analyse
from pipeline.report.breakdown import ranked
from pipeline.report.cells import Cell


def test_profiles_tell_their_weights_and_picks(project, four_variants):
    project.raw["decision"]["profiles"]["own"] = {"weights": {"speedup": 3, "weight_bytes": 1}}
    analysis = analyse(project.write(*four_variants))
    own = next(profile for profile in ranked.profiles(analysis.params, analysis.decision) if profile.name == "own")
    assert own.weights == (("Decode speed vs baseline", "75 %"), ("Weights on disk", "25 %"))
    assert own.pick == analysis.decision.profiles["own"] == "int4-gptq"


def test_scores_have_their_interval_or_the_reason_why_there_is_none(project, four_variants):
    analysis = analyse(project.write(*four_variants))
    scores = {found.variant: ranked.score(found) for found in analysis.decision.variants}
    assert scores["fp16"].value == 1
    assert scores["int4-gptq"].interval
    assert scores["int4-gptq"].value > 1
    assert scores["int4-awq"] == Cell("–", reason=scores["int4-awq"].reason)
    assert scores["int4-awq"].reason
