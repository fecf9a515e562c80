from __future__ import annotations

from pipeline.report.analysis import analyse
from pipeline.report.breakdown import ranked


def test_profiles_tell_their_weights_and_picks(project, four_variants):
    project.raw["decision"]["profiles"]["own"] = {"weights": {"speedup": 3, "weight_bytes": 1}}
    analysis = analyse(project.write(*four_variants))
    own = next(profile for profile in ranked.profiles(analysis.params, analysis.decision) if profile.name == "own")
    assert own.weights == (("Decode speed vs baseline", "75 %"), ("Weights on disk", "25 %"))
    assert own.pick == analysis.decision.profiles["own"] == "int4-gptq"
