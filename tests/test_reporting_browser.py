"""The report's pages in a real browser, opened as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromium
import pytest
import sample_results as sample

import autofn

pytestmark = pytest.mark.slow

FUNCTIONS = ("clipped_relu", "exp", "own_function")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("root")
    sample.write_everything(root, FUNCTIONS)
    return {path.stem: path for path in autofn.report(root, root / "html")}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium.started() as found:
        yield found


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """A tab in which, at the end, nothing was logged as an error and nothing but files was asked for."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    found = context.new_page()
    errors: list[str] = []
    found.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    found.on("pageerror", lambda error: errors.append(str(error)))
    asked: list[str] = []
    found.on("request", lambda request: asked.append(request.url))
    yield found
    context.close()
    assert errors == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def opened(tab: Any, path: Path, state: str = "") -> Any:
    tab.goto(f"{path.as_uri()}{state}")
    return tab


def rows(tab: Any, section: str) -> list[str]:
    """The first two cells of the rows that show."""
    shown = tab.locator(f"#{section} tbody tr:visible")
    return [" ".join(row.locator("th, td").all_inner_texts()[:2]) for row in shown.all()]


def scrolled(tab: Any, section: str) -> Any:
    """The first plot of a section, drawn because it came into view."""
    figure = tab.locator(f"#{section} figure:visible").first
    figure.scroll_into_view_if_needed()
    figure.locator("svg.main-svg").first.wait_for()
    return figure


def test_all_functions_have_their_section_and_plots_are_drawn_when_seen(tab: Any, pages: dict[str, Path]) -> None:
    opened(tab, pages["comparison"])
    assert tab.locator("section.function > h2").all_inner_texts() == list(FUNCTIONS)
    assert tab.locator("svg.main-svg").count() < tab.locator("figure").count()
    for function in FUNCTIONS:
        figure = scrolled(tab, f"{function}-times")
        assert figure.locator(".legendtext").all_text_contents()[:3] == ["eager", "compile", "python"]


def test_the_filter_hides_rows_columns_and_series_and_stands_in_the_url(tab: Any, pages: dict[str, Path]) -> None:
    opened(tab, pages["comparison"])
    scrolled(tab, "exp-times")
    assert len(rows(tab, "exp-variants")) == len(sample.VARIANTS) * len(sample.WORKLOADS)

    tab.locator("summary", has_text="variant:").click()
    tab.locator("label", has_text="python").first.click()
    tab.keyboard.press("Escape")
    tab.locator("summary", has_text="workload:").click()
    tab.locator("label", has_text="tiny").click()

    assert rows(tab, "exp-variants") == ["python tiny"]
    assert tab.locator("#matrix thead th:visible").all_inner_texts()[:3] == ["Function", "python", "Device"]
    assert tab.locator("#exp-times figure:visible .legendtext").all_text_contents() == ["python"]
    assert tab.evaluate("location.hash") == "#variant=python&workload=tiny"


def test_rules_are_folded_until_asked_for_and_findings_are_not(tab: Any, pages: dict[str, Path]) -> None:
    opened(tab, pages["comparison"])
    assert tab.locator("#exp-checks tbody tr:visible", has_text="fused").count() == 2
    assert tab.locator("#exp-checks td:visible", has_text="1 of 2 failed").count() == 0
    tab.locator("#exp-checks summary", has_text="Every rule").click()
    assert tab.locator("#exp-checks td:visible", has_text="1 of 2 failed").count() == 1


def test_a_url_with_a_state_opens_in_that_state(tab: Any, pages: dict[str, Path]) -> None:
    opened(tab, pages["comparison"], "#exp-variants&function=exp&variant=cpp&dtype=*&workload=large")
    assert rows(tab, "exp-variants") == ["cpp large"] * len(sample.DTYPES)
    assert tab.locator("section.function:visible > h2").all_inner_texts() == ["exp"]
    assert tab.locator("#exp-variants").evaluate("found => found.getBoundingClientRect().top") < 900


def test_show_all_lets_every_row_through_and_links_keep_the_choice(tab: Any, pages: dict[str, Path]) -> None:
    opened(tab, pages["index"])
    before = len(rows(tab, "matrix"))
    tab.get_by_role("button", name="Show all").click()
    assert len(rows(tab, "matrix")) > before
    assert tab.evaluate("location.hash") == "#phase=*&dtype=*"
    tab.get_by_role("link", name="Variants compared").click()
    assert tab.evaluate("location.hash") == "#phase=*&dtype=*"


def test_a_click_on_a_heading_sorts_by_value_with_na_last(tab: Any, pages: dict[str, Path]) -> None:
    opened(tab, pages["comparison"], "#function=exp&workload=large")
    heading = tab.locator("#exp-variants thead button", has_text="Time")
    heading.click()
    assert [row.split()[0] for row in rows(tab, "exp-variants")] == [
        "cpp", "cpp_seeded", "fused", "compile", "python", "eager", "triton",
    ]  # fmt: skip
    heading.press("Enter")
    assert rows(tab, "exp-variants")[0] == "eager large"
    assert tab.locator("#exp-variants th[aria-sort=descending]").inner_text().startswith("Time")


def test_the_theme_button_turns_page_and_plots_dark(tab: Any, pages: dict[str, Path]) -> None:
    opened(tab, pages["comparison"])
    figure = scrolled(tab, "exp-times")
    colours = """() => [document.body, document.querySelector(".xtick text")]
        .map(getComputedStyle).map((style) => [style.backgroundColor, style.fill])"""
    light = tab.evaluate(colours)
    tab.locator("#theme").click()
    dark = tab.evaluate(colours)
    assert figure.locator("svg.main-svg").count() > 0
    assert light[0][0] != dark[0][0]
    assert light[1][1] != dark[1][1]
    assert tab.locator("#theme").get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize("name", ["index", "comparison", "commits"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_page_is_wider_than_its_window(tab: Any, pages: dict[str, Path], name: str, width: int) -> None:
    tab.set_viewport_size({"width": width, "height": 844})
    opened(tab, pages[name], "#phase=*&dtype=*")
    if name != "index":
        scrolled(tab, "clipped_relu")
    tab.mouse.wheel(0, 3000)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_names_that_look_like_html_are_text_in_tables_menus_and_plots(tab: Any, pages: dict[str, Path]) -> None:
    dialogs: list[Any] = []
    tab.on("dialog", lambda dialog: (dialogs.append(dialog), dialog.dismiss()))
    opened(tab, pages["comparison"], "#phase=forward")
    figure = scrolled(tab, "own_function-times")
    assert f"python_{sample.HOSTILE}" in figure.locator(".legendtext").all_text_contents()
    assert tab.locator("#filters label", has_text=f"python_{sample.HOSTILE}").count() == 1
    opened(tab, pages["commits"])
    assert tab.locator("#commits td", has_text=f"Handle {sample.HOSTILE} & co").count() == 1
    assert dialogs == []


def test_a_history_plot_tells_the_subject_of_a_commit(tab: Any, pages: dict[str, Path]) -> None:
    opened(tab, pages["commits"], "#workload=large&phase=forward")
    figure = scrolled(tab, "exp-history")
    figure.locator(".points path").first.hover(force=True)
    tab.locator(".hovertext").first.wait_for()
    assert "2026-11-01 Start" in (tab.locator(".hovertext").first.text_content() or "")
    figure.locator("summary").click()
    figure.locator("tbody tr").first.wait_for()
    assert figure.locator("tbody tr").count() == 6
    assert "failed: the extension did not build" in figure.locator("tbody").inner_text()
