"""The page on reading a report explains every section of it, in both languages, and every link in the docs leads on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.report import html

ROOT = Path(__file__).parents[3]
PAGES = ("docs/reading-the-report.md", "docs/reading-the-report.zh.md")
TITLE = re.compile(r'<h2 id="[^"]*">([^<{]+)</h2>')
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def headings(page: str, level: str) -> list[str]:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    return [line.removeprefix(f"{level} ") for line in lines if line.startswith(f"{level} ")]


def section_title(section: str) -> str:
    """As the page shows it; the decision's heading is the recommendation itself."""
    template = (Path(html.__file__).parent / "templates" / f"{section}.j2").read_text(encoding="utf-8")
    found = TITLE.search(template)
    return found[1] if found and section != "decision" else section.capitalize()


@pytest.mark.parametrize("page", PAGES)
def test_every_section_is_explained_in_the_order_of_the_report(page: str) -> None:
    explained = headings(page, "###")
    assert [title.split("（")[0] for title in explained] == [section_title(name) for name, _ in html.SECTIONS]


@pytest.mark.parametrize("pages", [PAGES, ("README.md", "README.zh.md")])
def test_both_languages_have_the_same_parts(pages: tuple[str, str]) -> None:
    assert len({len(headings(page, "##")) for page in pages}) == 1
    assert len({(ROOT / page).read_text(encoding="utf-8").count("\n|") for page in pages}) == 1


@pytest.mark.parametrize(
    "page",
    [*sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md")), "README.md", "README.zh.md"],
)
def test_links_between_documents_lead_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.S)
    targets = [target for target in LINK.findall(text) if "://" not in target]
    assert [target for target in targets if not ((ROOT / page).parent / target).exists()] == []
