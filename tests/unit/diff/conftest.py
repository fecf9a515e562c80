"""Two reports in folders, or as two commits of one repository, made from synthetic records without DVC."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.diff import compare, places, snapshot
from pipeline.diff.records import Difference
from pipeline.metrics.evidence import VariantEvidence
from pipeline.report.analysis import analyse
from pipeline.stages import report


@dataclass
class Reports:
    """Writes reports into the project folder, and keeps copies of them."""

    project: object

    def make(self, *variants: VariantEvidence) -> None:
        shutil.rmtree("reports", ignore_errors=True)
        report.write(analyse(self.project.write(*variants)))  # type: ignore[attr-defined]

    def keep(self, name: str, *variants: VariantEvidence) -> Path:
        """The report and its params in a folder of its own."""
        self.make(*variants)
        folder = Path("kept", name)
        shutil.copytree("reports", folder / "reports")
        shutil.copy("params.yaml", folder)
        return folder

    def commit(self, message: str, *variants: VariantEvidence) -> str:
        self.make(*variants)
        if not Path(".git").exists():
            self.git("init", "-q")
        self.git("add", "params.yaml", "reports")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    @staticmethod
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def reports(project, monkeypatch) -> Reports:
    # The page takes a second to render, and nothing here reads it.
    monkeypatch.setattr(report.html, "render", lambda analysis: "<html></html>\n")
    return Reports(project)


@pytest.fixture
def difference() -> Callable[[object, object], Difference]:
    def found(a: object, b: object) -> Difference:
        with places.opened(str(a)) as one, places.opened(str(b)) as other:
            return compare.compare(snapshot.read(one), snapshot.read(other))

    return found
