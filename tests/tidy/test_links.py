"""What the documents point to is there."""

import re
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
ELSEWHERE = re.compile(r"[a-z]+:")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def documents(root: Path) -> list[Path]:
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def headings(text: str) -> set[str]:
    """The anchors that a reader's browser knows for the headings of a document."""
    titles = re.findall(r"^#+ +(.*)$", CODE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken_links(document: Path, root: Path) -> list[str]:
    """Say every link of a document that leads to no file of the project, or to no heading in it."""
    text = document.read_text()
    found = []
    for target in LINK.findall(CODE.sub("", text)):
        if ELSEWHERE.match(target):
            continue
        name, _, anchor = target.partition("#")
        path = (document.parent / name).resolve() if name else document
        if not path.exists() or not path.is_relative_to(root.resolve()):
            found.append(f"{document.relative_to(root)}: {target} is not there")
        elif anchor and anchor not in headings(path.read_text()):
            found.append(f"{document.relative_to(root)}: {target} leads to no heading")
    return found


@pytest.mark.parametrize("document", documents(ROOT), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path):
    assert broken_links(document, ROOT) == []


def test_links_that_lead_nowhere_are_reported(tmp_path: Path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "there.md").write_text("# What is there\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](docs/there.md) [b](docs/there.md#what-is-there) [c](https://example.org/x) `[d](e)` ![f](docs)\n"
        "[g](docs/gone.md) [h](docs/there.md#gone) [i](../outside.md) [j](#nowhere)\n"
    )
    assert broken_links(page, tmp_path) == [
        "page.md: docs/gone.md is not there",
        "page.md: docs/there.md#gone leads to no heading",
        "page.md: ../outside.md is not there",
        "page.md: #nowhere leads to no heading",
    ]
