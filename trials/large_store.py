"""How long a store of a million results takes to load, to render and to open, and what asv's own publish takes.

`python -m trials.large_store FOLDER` takes the store that `trials.synthetic` wrote there. Each step is a process of its
own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

PEAK = """
import json, resource, time
start = time.perf_counter()
{code}
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20]))
"""
LOAD = "from autofn import results; results.load({root!r})"
RENDER = "from autofn import reporting; reporting.report({root!r}, {out!r})"
# When the last task of opening is done: the next frame after the page's script has run.
OPENED = "new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now() / 1000))))"
ASV = {
    "version": 1, "project": "synthetic", "project_url": "", "repo": ".", "branches": ["main"],
    "results_dir": ".asv/results", "html_dir": ".asv/html", "env_dir": ".asv/env", "benchmark_dir": "benchmarks",
}  # fmt: skip


def measured(code: str) -> str:
    """Seconds, those of them on a processor, and peak memory of code in a fresh process."""
    run = subprocess.run([sys.executable, "-c", PEAK.format(code=code)], capture_output=True, text=True, check=True)
    seconds, processor, peak = json.loads(run.stdout.splitlines()[-1])
    return f"{seconds:.1f} s ({processor:.1f} s on a processor), {peak:.2f} GiB"


def opened(page: Path) -> float:
    """Seconds until the page answers, in Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto(page.as_uri())
        seconds = float(tab.evaluate(OPENED))
        browser.close()
    return seconds


def published(root: Path) -> float:
    """Seconds of `asv publish` on the same store."""
    (root / "benchmarks").mkdir(exist_ok=True)
    (root / "asv.conf.json").write_text(json.dumps(ASV))
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "asv", "publish"], cwd=root, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    """Parses the command line, prints a line a step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    root = parser.parse_args().folder.resolve()
    out = root / "html"
    print(f"load: {measured(LOAD.format(root=str(root)))}", flush=True)
    print(f"report (load and render): {measured(RENDER.format(root=str(root), out=str(out)))}", flush=True)
    for page in sorted(out.glob("*.html")):
        print(f"{page.name}: {page.stat().st_size / 1e6:.2f} MB, interactive in {opened(page):.2f} s", flush=True)
    print(f"asv publish: {published(root):.1f} s", flush=True)


if __name__ == "__main__":
    main()
