"""`dvc metrics diff` and `dvc plots diff` on the report's files: this repository's own dvc.yaml, no stage is run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipeline import store

ROOT = Path(__file__).resolve().parents[3]
SCORES = [1.0] * 60 + [0.0] * 40


@pytest.fixture
def two_commits(reports, build):
    """The second release lost 20 of 100 items of int8."""
    shutil.copy(ROOT / "dvc.yaml", ".")
    shutil.copytree(ROOT / ".dvc" / "plots", ".dvc/plots")
    shutil.copy(ROOT / ".dvc" / "config", ".dvc")
    reports.git("init", "-q")
    reports.git("add", "dvc.yaml", ".dvc")
    reports.commit("first", build.evidence("fp16", SCORES), build.evidence("int8", SCORES))
    worse = build.evidence("int8", [0.0] * 20 + SCORES[20:])
    reports.commit("second", build.evidence("fp16", SCORES), worse)


def dvc(*arguments: str) -> str:
    environment = {**os.environ, "DVC_NO_ANALYTICS": "1"}
    command = [sys.executable, "-m", "dvc", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_metrics_diff_shows_what_changed(two_commits):
    changed = json.loads(dvc("metrics", "diff", "HEAD~1", "HEAD", "--json"))
    assert set(changed) == {"reports/metrics/int8.json"}
    quality = changed["reports/metrics/int8.json"]["quality"]
    assert (quality["old"], quality["new"]) == (0.6, 0.4)
    assert quality["diff"] == pytest.approx(-0.2)


def test_plots_diff_draws_both_revisions(two_commits):
    found = json.loads(dvc("plots", "diff", "HEAD~1", "HEAD", "--json"))
    assert not found.get("errors")
    (plot,) = found["data"]["frontier"]
    assert plot["revisions"] == ["HEAD~1", "HEAD"]
    points = {(p["rev"], p["variant"]): (p["speedup"], p["quality"]) for p in plot["content"]["data"]["values"]}
    assert points[("HEAD~1", "int8")] == ("1", "0.6")
    assert points[("HEAD", "int8")] == ("1", "0.4")


def test_the_template_s_fields_are_columns_of_the_table(two_commits):
    header = (store.REPORTS / "pareto.csv").read_text().splitlines()[0].split(",")
    template = (ROOT / ".dvc" / "plots" / "frontier.json").read_text()
    for field in ("quality_ci_low", "quality_ci_high", "speedup_ci_low", "speedup_ci_high", "status", "frontier"):
        assert field in template
        assert field in header
    (plot,) = (plot["frontier"] for plot in yaml.safe_load((ROOT / "dvc.yaml").read_text())["plots"])
    assert {*plot["x"].values(), *plot["y"].values()} <= set(header)
