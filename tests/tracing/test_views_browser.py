"""`autofn trace --view --offline` in a real browser: every view of the plugin, and no request to another machine."""

from __future__ import annotations

import chromium
import pytest
from traces import FUNCTION, STEPS, VIEWS, Viewer, named

from autofn.viewing import polyfill

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]
VARIANT = named("python")[0]
ARROWS = """() => document.querySelector("tr-ui-timeline-view")?.model?.flowEvents
    .map(({startSlice, endSlice}) => [startSlice.title, endSlice.title]) || []"""


@pytest.fixture(scope="module")
def viewer(recorded):
    try:
        polyfill.fetched()
    except polyfill.NoPolyfillError as error:
        pytest.skip(str(error))
    found = Viewer(recorded[0], "--offline")
    yield found
    found.stop()


@pytest.fixture(scope="module")
def browser():
    with chromium.started() as found:
        yield found


@pytest.fixture
def tab(browser, viewer):
    """TensorBoard's page, which in the end has thrown no error and asked no other machine for anything."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    found = context.new_page()
    errors, asked = [], []
    found.on("pageerror", lambda error: errors.append(str(error)))
    context.on("request", lambda request: asked.append(request.url))
    found.goto(f"{viewer.base}#pytorch_profiler")
    found.frame_locator("iframe").get_by_text("Step Time Breakdown").wait_for()
    yield found
    context.close()
    assert errors == []
    assert [url for url in asked if not url.startswith((viewer.base, "data:", "blob:"))] == []


@pytest.fixture
def photograph(tab, tmp_path):
    """For whoever wants to look: pytest --basetemp says where."""
    yield
    tab.wait_for_timeout(400)  # menus fade
    tab.screenshot(path=tmp_path / "view.png")


def choose(tab, which, name):
    """Picks an entry of the first (run) or second (view) menu; the plugin's part of the page comes back."""
    plugin = tab.frame_locator("iframe")
    plugin.locator(".MuiSelect-root").nth(which).click()
    plugin.locator("li[role=option]").get_by_text(name, exact=True).click()
    return plugin


def opened(tab, view, variant=VARIANT):
    choose(tab, 0, f"{FUNCTION}/{variant}")
    return choose(tab, 1, view)


@pytest.mark.usefixtures("photograph")
def test_overview_draws_its_charts(tab):
    plugin = opened(tab, "Overview")
    plugin.locator("svg rect title", has_text="CPU Exec").first.wait_for(state="attached")
    assert plugin.locator("svg rect title", has_text="CPU Exec").count() == STEPS
    assert plugin.locator("svg path title").count() >= 1


@pytest.mark.usefixtures("photograph")
def test_the_operator_view_has_the_phases_of_every_variant_and_opens_a_call_stack(tab, folders):
    plugin = opened(tab, "Operator", "all")
    for variant in folders.keys() - {"all"}:
        plugin.get_by_role("searchbox").fill(f"{FUNCTION}/{variant}/")
        for phase in ("forward", "backward"):
            plugin.locator("td", has_text=f"{FUNCTION}/{variant}/{phase}").first.wait_for()
    plugin.get_by_text("View CallStack").first.click()
    plugin.get_by_text("View call frames").first.click()
    plugin.get_by_text("autofn/tracing/profiling.py").first.wait_for()


@pytest.mark.usefixtures("photograph")
def test_the_memory_view_draws_a_curve(tab):
    plugin = opened(tab, "Memory")
    plugin.get_by_text("Peak Memory Usage").first.wait_for()
    curve = plugin.locator("svg polyline").first
    curve.wait_for()
    assert len(curve.get_attribute("points").split()) > 2 * STEPS


@pytest.mark.usefixtures("photograph")
def test_the_module_view_has_the_forward_as_a_module(tab):
    plugin = opened(tab, "Module")
    plugin.locator("td", has_text=f"{FUNCTION}/{VARIANT}_0").first.wait_for()


@pytest.mark.usefixtures("photograph")
def test_the_trace_view_has_an_arrow_from_each_forward_to_its_backward(tab):
    plugin = opened(tab, "Trace")
    timeline = plugin.frame_locator("iframe").locator("body")
    for _ in range(120):
        arrows = timeline.evaluate(ARROWS)
        if arrows:
            break
        tab.wait_for_timeout(250)
    assert sum(end == f"{start}Backward" for start, end in arrows) >= STEPS


def test_every_view_was_opened(tab):
    plugin = tab.frame_locator("iframe")
    plugin.locator(".MuiSelect-root").nth(1).click()
    assert plugin.locator("li[role=option]").all_inner_texts() == VIEWS
