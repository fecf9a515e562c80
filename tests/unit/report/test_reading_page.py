"""The page on reading a report explains every section of it, in both languages, and every link in the docs leads on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.report import html

ROOT = Path(__file__).parents[3]
PAGES = ("docs/reading-the-report.md", "docs/reading-the-report.zh.md")
TITLE = re.compile(r'<h2 id="[^"]*">([^<{]+)</h2>')
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
QUOTED = re.compile(r"(?<!\*)\*([A-Za-z][^*]*)\*(?!\*)")


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
    for target, anchor in LINK.findall(text):
        if "://" in target:
            continue
        there = (ROOT / page).parent / target if target else ROOT / page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target + anchor


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {"#" + re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in found}


@pytest.mark.parametrize("page", PAGES)
def test_what_the_page_quotes_from_the_report_stands_there(page: str) -> None:
    """In italics it writes headings, columns and words of the report."""
    folder = ROOT / "pipeline"
    files = [path for name in ("report", "metrics") for path in (folder / name).rglob("*") if path.is_file()]
    said = " ".join(path.read_text(encoding="utf-8") for path in files if path.suffix in (".py", ".j2", ".js")).lower()
    quoted = {" ".join(words.split()) for words in QUOTED.findall((ROOT / page).read_text(encoding="utf-8"))}
    assert len(quoted) > 10
    assert [words for words in quoted if words.lower() not in said] == []
