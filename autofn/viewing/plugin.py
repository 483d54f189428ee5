"""torch-tb-profiler as it is served here: few traces are read at a time, and offline no script comes from the internet.

Nothing in site-packages is touched: these are subclasses of the plugin, frozen at 0.4.3.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch_tb_profiler.plugin import TorchProfilerPlugin
from werkzeug import Request, Response

from . import polyfill

GOOGLE_CHARTS = "https://www.gstatic.com/charts/loader.js"
WEB_COMPONENTS = "https://cdnjs.cloudflare.com/ajax/libs/webcomponentsjs/0.7.24/webcomponents.min.js"
CHARTS = Path(__file__).with_name("charts.js")


class Plugin(TorchProfilerPlugin):
    """Reads as many traces at a time as there are cores, where the plugin would start a process for each at once."""

    def __init__(self, context: Any) -> None:
        self._cores = threading.BoundedSemaphore(os.cpu_count() or 1)
        super().__init__(context)

    def _load_run(self, run_dir: str) -> None:
        with self._cores:
            super()._load_run(run_dir)


class OfflinePlugin(Plugin):
    """Its page loads the charts and the polyfill from here. Without the polyfill the Trace view alone stays empty."""

    def __init__(self, context: Any) -> None:
        try:
            self.web_components: Path | None = polyfill.fetched()
        except polyfill.NoPolyfillError as error:
            self.web_components = None
            print(f"view: the Trace view will be empty: {error}", file=sys.stderr)
        super().__init__(context)

    def get_plugin_apps(self) -> dict[str, Callable[..., Any]]:
        apps: dict[str, Callable[..., Any]] = super().get_plugin_apps()
        page = _replaced(self.static_file_route, GOOGLE_CHARTS, "charts.js")
        apps |= {"/index.html": page, "/charts.js": _file(CHARTS)}
        if self.web_components:
            trace = _replaced(self.static_file_route, WEB_COMPONENTS, "webcomponents.js")
            apps |= {"/trace_embedding.html": trace, "/webcomponents.js": _file(self.web_components)}
        return apps


def plugin(*, offline: bool) -> type[Plugin]:
    return OfflinePlugin if offline else Plugin


def _replaced(route: Callable[..., Any], script: str, own: str) -> Callable[..., Any]:
    """The page of a route with one of its scripts from elsewhere."""

    def serve(environ: Any, start_response: Any) -> Any:
        page = Response.from_app(route, environ)
        page.set_data(page.get_data(as_text=True).replace(script, own))
        return page(environ, start_response)

    return serve


def _file(path: Path) -> Callable[..., Any]:
    @Request.application
    def serve(_: Request) -> Response:
        return Response(path.read_bytes(), content_type="application/javascript", headers=TorchProfilerPlugin.headers)

    return serve
