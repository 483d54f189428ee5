"""Samples on a device: what is between the marks, what is flushed when, and what is said of throttling.

The device is a fake: what is asked of it waits in a queue and takes its time only when somebody synchronises.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import types
import weakref
from dataclasses import asdict
from functools import partial

import pytest
import torch
from support import Clock, case_of, make_spec

from autofn.case import Key, prepare
from autofn.measure import device_clock, phases
from autofn.measure.device_clock import CudaClock, clock_of
from autofn.measure.device_state import State, Watched, detail, read_nvml, throttles, watched
from autofn.measure.protocols import CACHE, protocol, way_of
from autofn.measure.ways import samplers
from autofn.terms import PHASES

FORWARD_S, BACKWARD_S, FLUSH_S = 1.0, 100.0, 1e6
POOL = phases.POOL


class Mark:
    at = None


class Device:
    """A DeviceClock whose device does what it was asked only in `synchronise`; it keeps a list of all it has done.

    What is launched while a capture goes on is kept for the replay. The host's work takes no time.
    """

    def __init__(self):
        self.now, self.queue, self.done, self.launched = 0.0, [], [], []
        self.capturing = None
        self.captures, self.synchronised = 0, 0
        self.states = iter(())

    def __call__(self):
        return self.now

    def launch(self, name, seconds):
        self.launched.append(name)
        (self.queue if self.capturing is None else self.capturing).append((name, seconds))

    def mark(self):
        mark = Mark()
        self.queue.append((mark, 0.0))
        return mark

    def elapsed(self, begin, end):
        assert begin.at is not None, "read before the device was synchronised"
        assert end.at is not None, "read before the device was synchronised"
        return end.at - begin.at

    def synchronise(self):
        if self.capturing is not None:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.synchronised += 1
        for what, seconds in self.queue:
            self.now += seconds
            if isinstance(what, Mark):
                what.at = self.now
            self.done.append("mark" if isinstance(what, Mark) else what)
        self.queue = []

    def flush(self):
        self.launch("flush", FLUSH_S)

    def capture(self, *steps):
        self.captures += 1
        return tuple(self._captured(step) for step in steps)

    def _captured(self, step):
        self.capturing = kernels = []
        try:
            step()
        except RuntimeError:
            raise RuntimeError("operation failed due to a previous error during capture") from None
        finally:
            self.capturing = None
        return lambda: self.queue.extend([("replay", 0.0), *kernels])

    def state(self):
        return next(self.states)


class Watch:
    """y = x * x whose kernels take 1 s and 100 s of a fake device; it counts graphs, and uses up what it has saved."""

    def __init__(self):
        self.device = device = Device()
        self.gradients, self.tracked, self.collecting, self.waiting = [], [], [], []
        self.graphs = graphs = weakref.WeakSet()
        watch = self

        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                device.launch("forward", FORWARD_S)
                graphs.add(ctx)
                watch.waiting.append(len(graphs))
                watch.collecting.append(gc.isenabled())
                ctx.kept = x.detach().clone()
                return x * x

            @staticmethod
            def backward(ctx, grad_output):
                device.launch("backward", BACKWARD_S)
                # Used twice, the graph would give a wrong gradient.
                grad = ctx.kept.mul_(2).mul_(grad_output)
                watch.gradients.append(grad.clone())
                return grad

        def square(x):
            watch.tracked.append(torch.is_grad_enabled())
            return Square.apply(x)

        self.case = case_of(square)
        self.ways = samplers("cuda", CACHE)

    def sample(self, way, phase, number):
        return self.ways[way][phase](self.case, number, self.device)

    def done(self, *names):
        return [name for name in self.device.done if name in names]


@pytest.fixture
def watch():
    return Watch()


SECONDS = {
    "forward": FORWARD_S,
    "backward": BACKWARD_S,
    "forward_backward": FORWARD_S + BACKWARD_S,
    "inference": FORWARD_S,
}
DEVICE_WAYS = [way for way in CACHE if way != "wall"]
every_way = pytest.mark.parametrize("way", DEVICE_WAYS)
every_phase = pytest.mark.parametrize("phase", PHASES)
every_number = pytest.mark.parametrize("number", [1, 2, POOL - 1, POOL, POOL + 1, 2 * POOL + 5])
differentiated = pytest.mark.parametrize("phase", ["backward", "forward_backward"])


@every_way
@every_phase
@every_number
def test_a_sample_is_the_device_time_of_its_part_of_exactly_its_calls(watch, way, phase, number):
    assert watch.sample(way, phase, number) == pytest.approx(number * SECONDS[phase])
    assert watch.done("forward") == ["forward"] * (number + (way == "graph"))
    backwards = number + (way == "graph") if "backward" in phase else 0
    assert watch.done("backward") == ["backward"] * backwards


@pytest.mark.parametrize("way", ["events-warm", "graph"])
@every_phase
def test_warm_ways_never_flush(watch, way, phase):
    watch.sample(way, phase, 2 * POOL + 5)
    assert "flush" not in watch.device.launched


@pytest.mark.parametrize(
    ("phase", "call"),
    [
        ("forward", ["flush", "mark", "forward", "mark"]),
        ("inference", ["flush", "mark", "forward", "mark"]),
        ("backward", ["flush", "forward", "flush", "mark", "backward", "mark"]),
        ("forward_backward", ["flush", "mark", "forward", "mark", "flush", "mark", "backward", "mark"]),
    ],
)
def test_the_cold_way_flushes_before_each_forward_and_between_forward_and_backward_outside_the_marks(
    watch, phase, call
):
    watch.sample("events-cold", phase, 3)
    assert watch.device.done == call * 3


@every_phase
def test_warm_calls_follow_each_other_between_two_marks(watch, phase):
    watch.sample("events-warm", phase, 3)
    call = {"forward_backward": ["forward", "backward"], "inference": ["forward"]}.get(phase, [phase])
    outside = ["forward"] * 3 if phase == "backward" else []
    assert watch.device.done == [*outside, "mark", *call * 3, "mark"]


@every_way
@every_phase
def test_the_device_is_synchronised_before_the_first_mark_and_before_marks_are_read(watch, way, phase):
    watch.device.launch("left over", 7.0)
    assert watch.sample(way, phase, 2) == pytest.approx(2 * SECONDS[phase])
    assert watch.device.synchronised >= 2
    assert not watch.device.queue


@every_way
@differentiated
def test_each_graph_is_used_once(watch, way, phase):
    watch.sample(way, phase, POOL + 3)
    want = 2 * watch.case.inputs[0].detach() * watch.case.grad_outputs[0]
    assert watch.gradients
    for gradient in watch.gradients:
        torch.testing.assert_close(gradient, want)


@every_way
@every_phase
def test_no_gradient_is_accumulated(watch, way, phase):
    missing = []
    watch.case.inputs[0].register_hook(lambda grad: missing.append(watch.case.inputs[0].grad is None))
    for _ in range(2):
        watch.sample(way, phase, 3)
        assert watch.case.inputs[0].grad is None
    assert all(missing)


@every_way
@every_phase
def test_graphs_are_freed_and_only_a_small_pool_waits(watch, way, phase):
    gc.disable()
    try:
        watch.sample(way, phase, 3 * POOL)
        left = len(watch.graphs)
    finally:
        gc.enable()
    assert left == 0
    assert max(watch.waiting) <= (POOL if (way, phase) == ("events-warm", "backward") else 2)


@every_way
@every_phase
def test_only_inference_runs_without_a_graph(watch, way, phase):
    watch.sample(way, phase, 3)
    assert set(watch.tracked) == {phase != "inference"}
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("way", ["events-warm", "events-cold"])
@every_phase
def test_garbage_is_not_collected_inside_a_sample(watch, way, phase):
    watch.sample(way, phase, 2)
    assert not any(watch.collecting)
    assert gc.isenabled()


@every_way
@every_phase
def test_an_output_that_no_gradient_reaches_and_an_unused_input_are_no_trouble(way, phase):
    def make(n, *, dtype, device, seed=0):
        return torch.ones(n, dtype=dtype).requires_grad_(), torch.ones(n, dtype=dtype).requires_grad_()

    case = case_of(spec=make_spec(reference=lambda x, unused: (x * 2, x * 3), make_inputs=make))
    assert samplers("cuda", [way])[way][phase](case, 2, Device()) == 0.0


# Graphs


@every_phase
@every_number
def test_a_graph_is_replayed_exactly_as_often_as_it_was_asked_for(watch, phase, number):
    watch.sample("graph", phase, number)
    replays = 2 * number if phase == "backward" else number
    assert watch.done("replay") == ["replay"] * replays


def test_a_backward_is_replayed_after_its_forward_which_is_outside_the_marks(watch):
    watch.sample("graph", "backward", 2)
    eager = ["forward", "backward"]
    assert watch.device.done == eager + ["replay", "forward", "mark", "replay", "backward", "mark"] * 2


@every_phase
def test_a_case_is_captured_once_and_another_case_anew(watch, phase):
    for _ in range(3):
        watch.sample("graph", phase, 2)
    assert watch.device.captures == 1
    watch.case = case_of(watch.case.apply)
    watch.sample("graph", phase, 2)
    assert watch.device.captures == 2


@every_phase
def test_a_function_that_synchronises_has_no_graph_time_and_the_reason_is_the_first_error(watch, phase):
    def synchronises(x):
        watch.device.synchronise()
        return x * x

    watch.case = case_of(synchronises)
    reason = r"cannot be captured in a CUDA graph: operation not permitted when stream is capturing$"
    with pytest.raises(NotImplementedError, match=reason):
        watch.sample("graph", phase, 2)
    assert torch.is_grad_enabled()
    assert watch.sample("events-warm", phase, 2) == 0.0


@every_way
@every_phase
@pytest.mark.parametrize("error", [RuntimeError("planted"), ValueError("planted")])
def test_what_a_function_raises_outside_of_a_capture_is_its_failure(watch, way, phase, error):
    def fails(x):
        raise error

    watch.case = case_of(fails)
    with pytest.raises(type(error), match=r"^planted$"):
        watch.sample(way, phase, 2)
    assert gc.isenabled()


def test_too_little_memory_for_a_capture_is_a_failure_too(watch):
    def capture(*steps):
        raise torch.OutOfMemoryError("planted")

    watch.device.capture = capture
    with pytest.raises(torch.OutOfMemoryError, match="planted"):
        watch.sample("graph", "forward", 1)


# Selection


def test_the_wall_is_what_phases_sample_on_every_device():
    assert samplers("cpu", ["wall"]) == samplers("cuda", ["wall"]) == {"wall": phases.SAMPLE}


def test_every_way_has_every_phase_and_a_cache():
    assert {way: set(found) for way, found in samplers("cuda", CACHE).items()} == {way: set(PHASES) for way in CACHE}
    assert set(CACHE.values()) == {"warm", "cold"}


@every_way
@every_phase
def test_on_the_cpu_the_ways_of_a_device_are_unavailable(watch, way, phase):
    with pytest.raises(NotImplementedError, match=f"^{way}: needs a CUDA device's clock, and the device is cpu$"):
        samplers("cpu", [way])[way][phase](watch.case, 1, Clock())


def test_an_unknown_way_is_named_with_the_ones_there_are():
    with pytest.raises(LookupError, match="no way 'event-warm'; did you mean events-warm"):
        samplers("cuda", ["event-warm"])


def test_the_wall_keeps_its_protocol_and_the_others_name_theirs():
    found = [protocol(way, "calls/1") for way in CACHE]
    assert found == ["calls/1", "calls/1+events-warm/1", "calls/1+events-cold/1", "calls/1+graph/1"]
    assert list(map(way_of, found)) == list(CACHE)
    assert way_of("") == "wall"


def test_a_device_clock_serves_the_wall_too(watch, monkeypatch):
    monkeypatch.setattr(type(watch.case), "synchronise", lambda _: watch.device.synchronise())
    assert watch.sample("wall", "backward", 3) == pytest.approx(3 * BACKWARD_S)


# The state of the device

CALM = State(sm_mhz=1980, memory_mhz=2619, temperature_c=40, throttle=())
HOT = State(sm_mhz=1200, memory_mhz=2619, temperature_c=88, throttle=("software thermal slowdown", "power cap"))


def test_samples_taken_while_throttled_are_flagged_and_kept(watch):
    watch.device.states = iter([CALM, CALM, CALM, HOT, HOT, CALM, CALM, CALM])
    sample = watch.ways["events-warm"]["forward"]
    found = [watched(partial(sample, watch.case, 2, watch.device), watch.device.state) for _ in range(4)]
    assert [taken.seconds for taken in found] == [2 * FORWARD_S] * 4
    assert detail(found) == {
        "throttled": [1, 2],
        "throttle": ["power cap", "software thermal slowdown"],
        "sm_mhz": [1200, 1980],
        "memory_mhz": [2619, 2619],
        "temperature_c": [40, 88],
    }


def test_the_state_is_read_before_and_after_the_marks(watch):
    read = []
    watch.device.state = lambda: read.append(len(watch.device.done)) or CALM
    watched(partial(watch.ways["events-cold"]["forward"], watch.case, 2, watch.device), watch.device.state)
    assert read == [0, 8]
    assert not watch.device.queue


def test_no_throttling_is_an_empty_list_and_an_unknown_state_is_none_with_its_reason():
    assert detail([Watched(1.0, CALM, CALM)])["throttled"] == []
    unknown = State(unknown="no driver")
    assert detail([Watched(1.0, unknown, unknown)]) == {"throttled": None, "throttle": [], "state_unknown": "no driver"}


def test_a_watched_sample_and_its_detail_are_plain_data():
    found = Watched(1.0, CALM, HOT)
    assert json.loads(json.dumps(asdict(found)))["after"]["sm_mhz"] == 1200
    assert json.loads(json.dumps(detail([found])))["throttled"] == [0]


def test_idle_and_chosen_clocks_are_no_throttling():
    assert throttles(0x1 | 0x2 | 0x100) == ()
    assert throttles(0x1 | 0x4 | 0x40) == ("power cap", "hardware thermal slowdown")


class NVMLError(Exception):
    pass


def nvml(**changes):
    """A module that answers as NVML does for a calm device."""
    found = {
        "NVMLError": NVMLError,
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "NVML_TEMPERATURE_GPU": 0,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetClockInfo": lambda handle, which: {1: 1980, 2: 2619}[which],
        "nvmlDeviceGetTemperature": lambda handle, sensor: 40,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x1,
    }
    return types.SimpleNamespace(**{**found, **changes})


def refuses(*_):
    raise NVMLError("Not Supported")


def test_what_a_device_does_not_tell_is_none_and_the_rest_is_there():
    assert read_nvml(nvml(), "handle") == CALM
    found = read_nvml(nvml(nvmlDeviceGetTemperature=refuses), "handle")
    assert found == State(1980, 2619, None, (), "temperature_c: Not Supported")


# CUDA's clock, on a stand-in for torch.cuda


@pytest.fixture
def cuda(monkeypatch):
    """torch.cuda with an L2 of 50 bytes, replaced where CudaClock touches it; the list of what was asked of it."""
    asked = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self, stream):
            asked.append(("record", stream))

        def elapsed_time(self, end):
            return 250.0

    class Stream:
        def wait_stream(self, other):
            asked.append("wait")

    class Graph:
        def replay(self):
            asked.append("replay")

    @contextlib.contextmanager
    def entered(name, *_, **__):
        asked.append(name)
        yield

    stand_in = {
        "Event": Event,
        "Stream": Stream,
        "CUDAGraph": Graph,
        "current_device": lambda: 3,
        "current_stream": lambda device=None: Stream() if device is None else f"stream of {device}",
        "synchronize": lambda device: asked.append(("synchronise", device)),
        "graph_pool_handle": lambda: "pool",
        "device": lambda device: entered(("device", device)),
        "stream": lambda stream: entered("stream"),
        "graph": lambda graph, pool, stream: entered(f"capture into {pool}"),
        "get_device_properties": lambda device: types.SimpleNamespace(L2_cache_size=50, uuid="1234"),
    }
    for name, value in stand_in.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return asked


def test_a_mark_is_on_the_current_stream_of_its_own_device_and_milliseconds_become_seconds(cuda):
    clock = CudaClock(torch.device("cuda", 1))
    assert clock.elapsed(clock.mark(), clock.mark()) == 0.25
    clock.synchronise()
    assert cuda == [("record", "stream of cuda:1")] * 2 + [("synchronise", torch.device("cuda", 1))]


def test_a_device_without_a_number_is_the_current_one(cuda):
    assert CudaClock(torch.device("cuda")).device == torch.device("cuda", 3)


def test_the_flush_writes_twice_the_l2_of_its_device_into_one_buffer(cuda, monkeypatch):
    written, made = [], []

    def empty(size, *, dtype, device):
        made.append((size * dtype.itemsize, device))
        return types.SimpleNamespace(zero_=lambda: written.append(size))

    clock = CudaClock(torch.device("cuda", 1))
    with monkeypatch.context() as patched:
        patched.setattr(torch, "empty", empty)
        clock.flush()
        clock.flush()
    assert made == [(100, torch.device("cuda", 1))]
    assert len(written) == 2


def test_an_l2_of_unknown_size_cannot_be_flushed(cuda, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: types.SimpleNamespace(L2_cache_size=0))
    with pytest.raises(NotImplementedError, match="cuda:1 does not tell the size of its L2 cache"):
        CudaClock(torch.device("cuda", 1)).flush()


def test_a_capture_is_warmed_on_a_side_stream_under_the_devices_guard_and_keeps_the_steps_order(cuda):
    steps = lambda: cuda.append("first"), lambda: cuda.append("second")
    first, second = CudaClock(torch.device("cuda", 1)).capture(*steps)
    captured = ["capture into pool", "first", "capture into pool", "second"]
    warm = ["first", "second"] * device_clock.CAPTURE_WARM_CALLS
    assert cuda == [("device", torch.device("cuda", 1)), "wait", "stream", *warm, *captured, "wait"]
    del cuda[:]
    first()
    second()
    assert cuda == ["replay", "replay"]


def test_the_state_is_that_of_the_device_with_the_same_uuid(cuda, monkeypatch):
    asked = []
    there = nvml(nvmlDeviceGetHandleByUUID=asked.append)
    monkeypatch.setattr(device_clock.importlib, "import_module", lambda name: there)
    assert CudaClock(torch.device("cuda", 1)).state() == CALM
    assert asked == ["GPU-1234"]


def test_without_nvml_the_state_is_unknown_for_a_reason(cuda, monkeypatch):
    clock = CudaClock(torch.device("cuda", 1))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert clock.state() == State(unknown="clocks are read through nvidia-ml-py (pynvml), which is not installed")
    monkeypatch.setitem(sys.modules, "pynvml", nvml(nvmlInit=refuses))
    assert clock.state() == State(unknown="NVML: Not Supported")


def test_a_case_on_the_cpu_has_no_device_to_be_clocked():
    with pytest.raises(NotImplementedError, match="square-python-tiny-float32-cpu: no input is on a CUDA device"):
        clock_of(case_of())


on_a_device = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def cuda_case(apply):
    """4 MB on the device: a kernel takes longer than the half microsecond that events resolve."""
    spec = make_spec(workloads={"tiny": {"n": 6}, "small": {"n": 64}, "large": {"n": 1 << 20}})
    return prepare(spec, Key("square", "python", "large", "float32", "cuda"), apply)


@on_a_device
@every_way
@every_phase
def test_every_way_gives_a_time_on_a_real_device(way, phase):
    case = cuda_case(torch.nn.functional.silu)
    clock, sample = clock_of(case), samplers("cuda", [way])[way][phase]
    sample(case, 3, clock)
    assert 0 < sample(case, 10, clock) < 1
    assert case.inputs[0].grad is None


@on_a_device
def test_a_function_that_synchronises_a_real_device_is_captured_by_no_graph_and_harms_nothing():
    case = cuda_case(lambda x: x * x.sum().item())
    clock, stream = clock_of(case), torch.cuda.current_stream()
    with pytest.raises(NotImplementedError, match="cannot be captured in a CUDA graph"):
        samplers("cuda", ["graph"])["graph"]["forward"](case, 1, clock)
    assert torch.cuda.current_stream() == stream
    assert samplers("cuda", ["events-warm"])["events-warm"]["forward"](case, 1, clock) > 0


@on_a_device
def test_a_flush_of_a_real_device_is_outside_the_marks(monkeypatch):
    # Gigabytes: each flush then takes far longer than the call.
    monkeypatch.setattr(device_clock, "FLUSH_L2S", 40)
    case = cuda_case(torch.square)
    clock = clock_of(case)
    cold = samplers("cuda", ["events-cold"])["events-cold"]["forward"]
    cold(case, 10, clock)
    before = clock.mark()
    for _ in range(10):
        clock.flush()
    after = clock.mark()
    assert cold(case, 10, clock) < clock.elapsed(before, after) / 2
