"""The store that trials/store.py makes is one that the package reads, as it reads a real one."""

from __future__ import annotations

import random
import shutil

from autofn import asv_axes, results
from autofn.asv_run import PROFILES
from autofn.fleets.merging import Merged, merge
from autofn.records import OK
from autofn.reporting import report
from trials import store


def test_a_made_up_cell_is_merged_and_read_with_samples_and_intervals(tmp_path, monkeypatch):
    (name, *_) = asv_axes.names()
    monkeypatch.setattr(asv_axes, "names", lambda: [name])
    job, root = tmp_path / "job", tmp_path / "root"
    cases = len(asv_axes.written(name)) * len(PROFILES["quick"]["workloads"]) * len(PROFILES["quick"]["dtypes"])
    values = cases * (len(asv_axes.PHASES) + len(asv_axes.MEMORY))
    for machine in ("machine0", "machine1"):
        store.write_cell(job, "a" * 40, machine, "quick", random.Random(machine))
        assert merge(job, root, machine) == Merged(values, 0)
        shutil.rmtree(job)
    found = results.load(root)
    assert len(found) == 2 * values
    assert set(found["status"]) == {OK}
    times = found[found["metric"] == "time_s"]
    assert set(times["samples"].map(len)) == {PROFILES["quick"]["rounds"] * PROFILES["quick"]["servers"]}
    assert (times["low"] < times["value"]).all()
    assert not found.duplicated(["machine", "variant", "workload", "dtype", "phase", "metric"]).any()

    pages = {path.name: path.read_text() for path in report(root, tmp_path / "html")}
    for machine in ("machine0", "machine1"):
        assert f"cpu · {machine}" in pages["commits.html"], "a plot a machine"
        assert machine in pages["index.html"]


def test_amounts_are_told_in_units_that_fit():
    assert store.told(2.5e12, "bytes") == "2.5 TB"
    assert store.told(90_000.0, "s") == "1.04 days"
    assert store.told(0.02, "s") == "20 ms"
    assert store.told(0.0, "rows") == "0"
    assert store.per_cell({"cells": 2, "s": 10.0}, {"cells": 6, "s": 14.0}, "s") == (1.0, 4.0)
