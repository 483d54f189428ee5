"""The ways to time on a device, through the very processes that time: a row a way, or the reason why it has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofn import results
from autofn.benching import bench
from autofn.measure import isolated, run, selection
from autofn.measure.lockstep import Effort
from autofn.measure.processes import Build, Processes
from autofn.measure.protocols import CACHE, LOCKSTEP, protocol
from autofn.measure.rows import Arm, Group, Rows
from autofn.records import FAILED, OK, UNAVAILABLE, Journal
from autofn.reporting.sections.variants import measured as time_cell
from autofn.reporting.speedup import apart, current
from autofn.speedups import add_speedups

WAYS = tuple(CACHE)
PHASES = ("forward", "backward")
ARMS = (Arm("eager"), Arm("python"))
# Of the made-up clock, which tells 1 ms between any two marks.
SPAN_S = 1e-3


def records_of(package, device, ways, function="square"):
    environment = (("PYTHONPATH", str(Path(__file__).parent)),)
    common = {"run": "r", "cache": "warm", "machine": "vm"}
    rows = Rows(Group(function, "tiny", "float32", device), PHASES, common, ways)
    effort = Effort(0.0, rounds=4, servers=4)
    with Processes() as processes:
        return rows, list(
            isolated.measure(processes, Build(package=package, environment=environment), rows, ARMS, effort)
        )


@pytest.fixture(scope="module")
def on_device():
    """All ways on a CPU that is taken for a device."""
    return records_of("fake_cuda", "cuda", WAYS)


@pytest.fixture(scope="module")
def by_cell(on_device):
    times = [record for record in on_device[1] if record.metric == "time_s"]
    found = {(r.variant, r.phase, results.way_of(r.protocol)): r for r in times}
    assert len(found) == len(times) == len(ARMS) * len(PHASES) * len(WAYS)
    return found


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_has_a_row_with_its_protocol_its_cache_and_a_time(by_cell, phase, way):
    found = by_cell["eager", phase, way]
    assert (found.status, found.protocol, found.cache) == (OK, protocol(way, LOCKSTEP[phase]), CACHE[way])
    assert found.low <= found.value <= found.high
    assert len(found.samples) == sum(found.detail["generations"]) == len(found.detail["again"]) == 16
    assert found.detail["servers"] == [1] * 4


def test_each_way_is_sampled_by_its_own_marks(by_cell):
    # Warm-ups of one call take one span, so a sample of SAMPLE_S has two calls.
    spans = {
        ("forward", "events-warm"): 1, ("forward", "events-cold"): 2, ("forward", "graph"): 1,
        ("backward", "events-warm"): 1, ("backward", "events-cold"): 2, ("backward", "graph"): 2,
    }  # fmt: skip
    for (phase, way), count in spans.items():
        found = by_cell["eager", phase, way]
        assert found.number == 2
        assert found.samples == pytest.approx([count * SPAN_S / 2] * 16)
    assert by_cell["eager", "forward", "wall"].number > 2


@pytest.mark.parametrize("phase", PHASES)
def test_what_cannot_be_captured_costs_its_graph_alone(by_cell, phase):
    found = by_cell["python", phase, "graph"]
    assert (found.status, found.value) == (UNAVAILABLE, None)
    assert found.reason == ("cannot be captured in a CUDA graph: operation not permitted when stream is capturing")
    assert all(by_cell["python", phase, way].status == OK for way in WAYS if way != "graph")


def test_throttled_samples_are_kept_and_said(by_cell):
    for cell, found in by_cell.items():
        if found.status == OK:
            assert found.detail["throttle"] == ["power cap"]
            # Two states a sample, every fourth of them throttled.
            assert len(found.detail["throttled"]) == len(found.samples) // 2, cell
            assert found.detail["sm_mhz"] == [1980, 1980]
    (row,) = results.frame([by_cell["eager", "forward", "wall"]]).to_dict("records")
    assert time_cell(row).note == "16 samples, 4 processes, 8 throttled by power cap"


def test_only_the_same_way_is_divided(on_device, by_cell):
    times = add_speedups(results.frame(on_device[1]))
    ratios = times.set_index(["variant", "phase", "way"])["speedup"]
    assert ratios["python", "forward", "events-cold"] == pytest.approx(1.0)
    assert ratios["python", "forward", "events-warm"] == pytest.approx(1.0)
    alone = times[(times["variant"] == "python") | (times["way"] == "wall")]
    assert add_speedups(alone).set_index(["variant", "phase", "way"])["speedup"].isna()["python", "forward", "graph"]


def test_a_report_shows_each_way_apart(on_device):
    shown = current(results.frame(on_device[1]))
    assert len(shown) == len(ARMS) * len(PHASES) * len(WAYS)
    assert apart(shown) == ["cache", "way"]


def test_a_journal_keeps_every_way_and_knows_what_it_lacks(on_device, tmp_path):
    rows, found = on_device
    task = run.Task(rows.group, ARMS, "1")
    journal = Journal(tmp_path / "j.jsonl")
    journal.append(found)
    read = list(journal.records())
    assert run.last_of_each([*read, *read]) == read == found
    assert run.missing([task], PHASES, read, lambda group: WAYS) == []
    one = next(record for record in read if record.protocol == protocol("graph", LOCKSTEP["forward"]))
    rest = [record for record in read if record is not one]
    assert run.missing([task], PHASES, rest, lambda group: WAYS) == [task]


def test_on_the_cpu_a_way_that_was_asked_for_is_unavailable_and_the_wall_is_there():
    _, found = records_of("planted", "cpu", ("wall", "events-cold"), "spin")
    for record in found:
        if record.metric == "time_s":
            way = results.way_of(record.protocol)
            assert record.status == (OK if way == "wall" else UNAVAILABLE)
            assert way == "wall" or record.reason == "events-cold: needs a CUDA device's clock, and the device is cpu"


def test_a_device_has_all_ways_unless_some_are_asked_for():
    assert selection.ways(None, "cuda") == WAYS
    assert selection.ways(None, "cpu") == ("wall",)
    assert selection.ways(["graph"], "cpu") == ("graph",)
    with pytest.raises(LookupError, match="no way 'graphs'; did you mean graph"):
        selection.ways(["graphs"], "cpu")


def test_in_one_process_there_is_the_wall_alone():
    with pytest.raises(ValueError, match="events-cold need processes of their own"):
        bench(ways=["events-cold"], isolate=False)


def test_a_variant_that_cannot_run_has_a_row_a_way_with_the_same_reason():
    rows = Rows(Group("f", "tiny", "float32", "cuda"), PHASES, {"cache": "warm"}, WAYS)
    found = list(rows.missing("cpp", FAILED, "planted"))
    assert len(found) == rows.per_arm
    assert len({(r.phase, r.metric, r.protocol, r.cache) for r in found}) == len(found)
    assert {record.reason for record in found} == {"planted"}
