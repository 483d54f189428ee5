"""What the tests of traces share: the Function that is recorded, its files read back, and events made by hand."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import threading
import urllib.parse
import urllib.request

import pytest

from autofn import registry

FUNCTION = registry.names()[0]
STEPS = 3
VIEWS = ["Overview", "Operator", "Trace", "Memory", "Module"]


def named(kind):
    """The variants of a kind."""
    return [variant.name for variant in registry.variants(FUNCTION) if variant.kind == kind]


def files_below(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def trace_in(folder):
    (path,) = folder.glob("*.pt.trace.json.gz")
    return path


def events_in(folder):
    return json.loads(gzip.decompress(trace_in(folder).read_bytes()))["traceEvents"]


def linked(events, variant, function=FUNCTION):
    """How many arrows lead from the variant's forward to its backward."""
    spans = {
        phase: [
            (event["ts"], event["ts"] + event["dur"])
            for event in events
            if event["name"] == f"{function}/{variant}/{phase}" and event.get("cat") == "cpu_op"
        ]
        for phase in ("forward", "backward")
    }
    ends = {}
    for event in events:
        if event.get("cat") == "fwdbwd":
            ends.setdefault(event["id"], {})[event["ph"]] = event["ts"]
    return sum(_inside(end["s"], spans["forward"]) and _inside(end["f"], spans["backward"]) for end in ends.values())


def _inside(ts, spans):
    return any(start <= ts < end for start, end in spans)


def event(category, name, ts, dur, tid=1, **args):
    """A complete event as Kineto writes it."""
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


class Viewer:
    """`autofn trace --view` on a free port. `get` asks the plugin; `log` is all that was printed."""

    def __init__(self, out, *options):
        for module in ("tensorboard", "torch_tb_profiler"):
            pytest.importorskip(module, reason=f"needs {module}: pip install 'autofn[tensorboard]'")
        command = [sys.executable, "-m", "autofn", "trace", "--view", "--port", "0", "--out", str(out), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.log = []
        self.base = self.line(r"(http://127\.0\.0\.1:\d+/)#pytorch_profiler")
        self.count = int(self.line(r"(\d+) runs are loaded"))
        threading.Thread(target=lambda: self.log.extend(self.process.stdout), daemon=True).start()

    def line(self, pattern):
        for line in self.process.stdout:
            self.log.append(line)
            if match := re.search(pattern, line):
                return match[1]
        raise RuntimeError("".join(self.log))

    def get(self, path, **query):
        url = f"{self.base}data/plugin/pytorch_profiler/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=30) as response:
            body = response.read()
            return json.loads(gzip.decompress(body) if response.headers.get("Content-Encoding") == "gzip" else body)

    def stop(self):
        self.process.terminate()
        status = self.process.wait(10)
        self.process.stdout.close()
        return status
