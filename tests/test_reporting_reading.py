"""The report as a reader uses it: without a mouse, with a screen reader, every filter, heading and link."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromium
import pytest
import sample_results as sample

import autofn
from autofn.reporting import split
from autofn.reporting.page import PLOTLY

pytestmark = pytest.mark.slow

PAGES = ("index", "comparison", "commits")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("root")
    sample.write_everything(root, ["exp", "own_function"])
    return {path.stem: path for path in autofn.report(root, root / "html")}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium.started() as found:
        yield found


def opened(browser: Any, path: Path, scheme: str = "light") -> Any:
    tab = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme).new_page()
    tab.goto(path.as_uri())
    return tab


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_issue(browser: Any, pages: dict[str, Path], name: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    tab = opened(browser, pages[name], scheme)
    for figure in tab.locator("figure.plot:visible").all()[:2]:
        figure.scroll_into_view_if_needed()
        figure.locator("svg.main-svg").first.wait_for()
    found = axe.Axe().run(tab).response["violations"]
    serious = [issue for issue in found if issue["impact"] in ("serious", "critical")]
    assert [(issue["id"], issue["nodes"][0]["html"][:200]) for issue in serious] == []
    tab.context.close()


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_to_a_place_that_is_there(browser: Any, pages: dict[str, Path], name: str) -> None:
    tab = opened(browser, pages[name])
    places = {stem: set(ids_of(tab, path)) for stem, path in pages.items()}
    tab.goto(pages[name].as_uri())
    links = set(tab.evaluate("[...document.querySelectorAll('a[href]')].map((link) => link.getAttribute('href'))"))
    lost = []
    for link in links:
        file, _, hash_ = link.partition("#")
        place = next((part for part in hash_.split("&") if part and "=" not in part), "")
        stem = file.removesuffix(".html") or name
        there = (pages[name].parent / file).exists() if stem not in places else not place or place in places[stem]
        if not there:
            lost.append(link)
    assert lost == []
    assert len(links) > 3
    tab.context.close()


def ids_of(tab: Any, path: Path) -> list[str]:
    tab.goto(path.as_uri())
    found: list[str] = tab.evaluate("[...document.querySelectorAll('[id]')].map((found) => found.id)")
    return found


@pytest.mark.parametrize("name", ["index", "comparison"])
def test_every_choice_of_every_filter_shows_only_what_it_lets_through(
    browser: Any, pages: dict[str, Path], name: str
) -> None:
    tab = opened(browser, pages[name])
    choices = tab.evaluate(
        """() => [...document.querySelectorAll("#filters input")].map((input) => [input.name, input.value])"""
    )
    assert {filter_ for filter_, _ in choices} >= {"function", "variant"}
    wrong = tab.evaluate("""() => [...document.querySelectorAll("#filters input")].flatMap((input) => {
        document.querySelector("#filters button").click();
        input.click();
        const rows = [...document.querySelectorAll(`main tbody tr[data-${input.name}]`)];
        const others = rows.filter((row) => !row.hidden && row.dataset[input.name] !== input.value);
        // What a page shows at first is not told.
        const told = ["forward_backward", "float32"].includes(input.value)
          || decodeURIComponent(location.hash).includes(`${input.name}=${input.value}`);
        return others.length || !told ? [`${input.name} ${input.value}`] : [];
    })""")
    assert wrong == []
    tab.context.close()


def test_every_heading_sorts_its_column(browser: Any, pages: dict[str, Path]) -> None:
    tab = opened(browser, pages["index"])
    tab.get_by_role("button", name="Show all").click()
    wrong = tab.evaluate("""() => [...document.querySelectorAll("main .scroll > table")].flatMap((table) =>
        [...table.querySelectorAll("thead th")].filter((head, index) => {
          head.querySelector("button").click();
          const cells = [...table.tBodies[0].rows].map((row) => row.cells[index]);
          const numbers = cells.filter((cell) => cell.dataset.v !== undefined).map((cell) => Number(cell.dataset.v));
          const sorted = numbers.every((value, place) => !place || numbers[place - 1] <= value);
          const said = head.getAttribute("aria-sort") === "ascending";
          return head.classList.contains("num") ? !(sorted && said) : !said;
        }).map((head) => head.textContent))""")
    assert wrong == []
    tab.context.close()


def test_the_page_is_used_by_keyboard_alone(browser: Any, pages: dict[str, Path]) -> None:
    tab = opened(browser, pages["comparison"])
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the results"
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.closest('#filters') !== null")
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Space")
    assert tab.evaluate("document.querySelectorAll('#filters input:checked').length") == 3
    tab.keyboard.press("Escape")
    assert tab.evaluate("document.querySelectorAll('#filters details[open]').length") == 0
    tab.context.close()


def test_print_leaves_out_what_paper_cannot_do(browser: Any, pages: dict[str, Path]) -> None:
    tab = opened(browser, pages["comparison"], "dark")
    tab.emulate_media(media="print")
    assert tab.locator("#filters").is_hidden()
    assert tab.locator(".toc").is_hidden()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tab.context.close()


def test_time_over_size_and_samples_are_drawn(browser: Any, pages: dict[str, Path]) -> None:
    tab = opened(browser, pages["comparison"])
    tab.locator("#exp-samples summary", has_text="Raw samples").click()
    for section in ("exp-sizes", "exp-tradeoff", "exp-samples"):
        figure = tab.locator(f"#{section} figure:visible").first
        figure.scroll_into_view_if_needed()
        figure.locator("svg.main-svg").first.wait_for()
        figure.locator("summary").click()
        figure.locator("tbody tr").first.wait_for()
        assert figure.locator(".points path").count() >= len(figure.locator("thead th").all()) - 1
    assert "65,536" in tab.locator("#exp-sizes figure:visible tbody").first.inner_text()
    assert "256 KiB" in tab.locator("#exp-tradeoff").inner_text()
    tab.context.close()


def test_a_page_that_is_too_large_is_split_and_its_old_links_lead_on(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample.write_everything(tmp_path, ["exp", "own_function"])
    monkeypatch.setattr(split, "MOST", 1000)
    made = {path.stem: path for path in autofn.report(tmp_path, tmp_path / "html")}
    assert {"comparison-exp", "comparison-own_function"} <= set(made)
    tab = opened(browser, made["index"])
    tab.locator("#verdicts tbody a", has_text="own_function").first.click()
    tab.wait_for_url("**/comparison-own_function.html*")
    assert tab.locator("h1").inner_text() == "Variants compared: own_function"
    tab.goto(f"{made['comparison'].as_uri()}#exp-checks&dtype=*")
    tab.wait_for_url("**/comparison-exp.html#exp-checks&dtype=*")
    assert tab.locator("#exp-checks tbody tr:visible").count() > 3
    tab.goto(made["comparison"].as_uri())
    tab.locator("#functions a", has_text="exp").click()
    tab.wait_for_url("**/comparison-exp.html*")
    tab.context.close()


def test_the_parts_of_a_split_page_draw_with_the_script_beside_them_and_ask_for_nothing_else(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample.write_everything(tmp_path, ["exp", "own_function"])
    monkeypatch.setattr(split, "MOST", 1000)
    made = {path.stem: path for path in autofn.report(tmp_path, tmp_path / "html")}
    part, library = made["comparison-exp"], tmp_path / "html" / PLOTLY
    assert part.stat().st_size < library.stat().st_size
    tab = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    asked, said = [], []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto(part.as_uri())
    figure = tab.locator("#exp-times figure:visible").first
    figure.scroll_into_view_if_needed()
    figure.locator("svg.main-svg").first.wait_for()
    assert [url for url in asked if not url.startswith("data:")] == [part.as_uri(), library.as_uri()]
    assert said == []
    library.unlink()
    tab.reload()
    figure.scroll_into_view_if_needed()
    figure.get_by_text("is not beside this page").wait_for()
    tab.get_by_role("button", name="Show all").click()
    figure.locator("summary").click()
    figure.locator("tbody tr").first.wait_for()
    tab.context.close()
