"""The documentation as a reader has it, from files: it asks nobody for anything, can be searched, and fits a phone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[2]
PAGES = sorted(page.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for page in (ROOT / "docs").rglob("*.md"))
PHONE = 390
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def phone(browser: Browser) -> Iterator[tuple[Page, list[str]]]:
    """A page as wide as a phone, and the addresses that it asked for and that are no files."""
    page, asked = browser.new_page(viewport={"width": PHONE, "height": 800}), list[str]()
    page.on("request", lambda request: None if request.url.startswith(("file:", "data:", "blob:")) else asked.append(request.url))
    yield page, asked
    page.close()


@pytest.mark.parametrize("name", ["index.html", *PAGES])
def test_a_page_fits_a_phone_and_asks_nobody(site: Path, phone: tuple[Page, list[str]], name: str) -> None:
    page, asked = phone
    page.goto((site / name).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE
    assert asked == []


def test_the_search_finds_a_page(site: Path, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto((site / "reference" / "python.html").as_uri())
    page.get_by_placeholder("Search").click()
    page.keyboard.type("foreachBatch")
    page.locator(".md-search-result__link").first.wait_for()
    assert page.locator(".md-search-result__link[href*='drop-in.html']").count() > 0
    page.close()


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_nothing_in_a_picture_is_cut_off_or_runs_over(browser: Browser, picture: Path) -> None:
    """Texts stay in the picture, and those of a box stay in the box."""
    page = browser.new_page()
    page.set_content(picture.read_text(encoding="utf-8"))
    over = page.evaluate(
        """() => {
          const inside = (a, b) => a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom;
          const all = document.querySelector("svg").getBoundingClientRect();
          return [...document.querySelectorAll("text")].filter(text => {
            const box = text.parentElement.querySelector(":scope > rect"), at = text.getBoundingClientRect();
            return !inside(at, all) || (text.parentElement.tagName == "g" && box && !inside(at, box.getBoundingClientRect()));
          }).map(text => text.textContent);
        }"""
    )
    assert over == []
    page.close()
