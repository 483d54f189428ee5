"""What the memory figures are tested on, in a process of its own: planted Functions, and uses of the allocator.

`python memory_truth.py planted|allocator|shipped` prints JSON.
"""

from __future__ import annotations

import gc
import io
import json
import sys
import threading
import traceback
from dataclasses import asdict

import torch
from support import make_spec

from autofn import registry
from autofn.case import Key, prepare
from autofn.observe import counters, memory

K = 12_345
FLOATS = 1_000_000
kept = []
slot = {}


def function(forward, backward=lambda ctx, grad: 2 * grad):
    """The `apply` of a torch.autograd.Function with one input and one output."""
    made = type(
        "Planted", (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    )
    return lambda x: made.apply(x)


def some(size=K):
    return torch.empty(size, dtype=torch.uint8)


def product(x):
    return x.sin() * x.exp()


def saves(ctx, x):
    ctx.save_for_backward(some())
    return 2 * x


def stashes(ctx, x):
    ctx.hidden = some()
    return 2 * x


def appends_to_a_global(ctx, x):
    kept.append(some())
    return 2 * x


def overwrites_a_global(ctx, x):
    slot["last"] = some()
    return 2 * x


def stores_its_output(ctx, x):
    ctx.y = x.clone()
    return ctx.y


def needs_room(ctx, x):
    y = 2 * x
    some()
    return y


def needs_room_backwards(ctx, grad):
    grad_x = 2 * grad
    some()
    return grad_x


def stashes_on_another_thread(ctx, x):
    thread = threading.Thread(target=lambda: setattr(ctx, "hidden", some()))
    thread.start()
    thread.join()
    return 2 * x


def chunks(x):
    return (2 * x).chunk(2)


PLANTED = {
    "product": product,
    "compiled product": torch.compile(product, fullgraph=True),
    "saves": function(saves),
    "stashes": function(stashes),
    "appends to a global": function(appends_to_a_global),
    "overwrites a global": function(overwrites_a_global),
    "stores its output": function(stores_its_output),
    "needs room": function(needs_room),
    "needs room backwards": function(lambda ctx, x: 2 * x, needs_room_backwards),
    "stashes on another thread": function(stashes_on_another_thread),
    "Python numbers": lambda x: (x * 2.5 + 1) / 3,
    "stashes, and Python numbers": lambda x: function(stashes)(x) * 2.5,
    "views its input": lambda x: x.view(2, -1),
    "outputs share a storage": chunks,
}


def case_of(apply):
    spec = make_spec(reference=apply, workloads={"tiny": {"n": 6}, "small": {"n": 64}, "large": {"n": FLOATS}})
    return prepare(spec, Key("planted", "python", "large", "float32", "cpu"), apply)


def measured(case, counted=None):
    """The memory of a case as plain data. What lives already is frozen: collecting garbage is what takes the time."""
    gc.freeze()
    return asdict(memory.measure(case, counted))


def planted():
    """{counter: {name: Memory}}. The profiler goes first: the allocator stays installed."""
    found = {}
    for make in (counters.ProfilerCounter, counters.AllocatorCounter):
        counted = make()
        found[counted.counted_by] = {name: measured(case_of(apply), counted) for name, apply in PLANTED.items()}
    return found


def native():
    import autofn._C

    return autofn._C


def live():
    return native().allocator_live_bytes()


def counts_a_product():
    x = torch.randn(FLOATS, requires_grad=True)
    native().allocator_start()
    y = product(x)
    assert live() == native().allocator_peak_bytes() == native().allocator_allocated_bytes() == 12_000_000
    del y
    assert (live(), native().allocator_peak_bytes()) == (0, 12_000_000)
    native().allocator_reset_peak()
    assert native().allocator_peak_bytes() == 0


def counts_only_what_was_allocated_since_the_start():
    old = some()
    native().allocator_start()
    del old
    assert live() == 0


def counts_nothing_for_nothing():
    native().allocator_start()
    empty = torch.empty(0)
    assert live() == 0
    del empty


def installs_once():
    native().allocator_start()
    x = some()
    native().allocator_install()
    y = some()
    assert live() == 2 * K
    del x, y
    assert live() == 0


def run(*targets):
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def sees_frees_on_another_thread():
    native().allocator_start()
    mine = [some()]
    assert live() == K
    run(mine.clear)
    assert live() == 0


def sees_allocations_on_another_thread():
    native().allocator_start()
    theirs = []
    run(lambda: theirs.append(some()))
    assert live() == K
    theirs.clear()
    assert live() == 0


def knows_the_peak_of_several_threads():
    native().allocator_start()
    together = threading.Barrier(4)

    def hold():
        block = some()
        together.wait()
        del block

    run(*[hold] * 4)
    assert (live(), native().allocator_peak_bytes()) == (0, 4 * K)


def keeps_count_under_contention():
    native().allocator_start()

    def churn():
        for size in range(1, 2000):
            torch.empty(size, dtype=torch.uint8)

    run(*[churn] * 4)
    assert (live(), native().allocator_allocated_bytes()) == (0, 4 * sum(range(1, 2000)))
    assert 1999 <= native().allocator_peak_bytes() <= 4 * 1999


def lives_beside_a_profiler():
    x = torch.randn(FLOATS, requires_grad=True)
    native().allocator_start()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True, acc_events=True) as profile:
        y = product(x)
        assert live() == 12_000_000
        found = memory.measure(case_of(product), counters.AllocatorCounter())
    assert (found.held_bytes, found.leaked_bytes) == (8_000_000, 0)
    del y
    theirs = {event.key: event.self_cpu_memory_usage for event in profile.key_averages()}
    assert theirs["aten::sin"] > 0
    assert theirs["aten::sin"] % 4_000_000 == 0


def lends_its_memory_to_numpy():
    native().allocator_start()
    x = torch.arange(1000, dtype=torch.float32)
    array = x.numpy()
    del x
    assert (live(), array.sum()) == (4000, 499_500)
    del array
    assert live() == 0


def resizes():
    native().allocator_start()
    x = torch.arange(10, dtype=torch.float32)
    x.resize_(1000)
    assert (live(), x[:10].sum()) == (4000, 45)
    x.untyped_storage().resize_(8)
    assert live() == 8
    del x
    assert live() == 0


def saves_and_loads():
    x = torch.randn(1000)
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    assert torch.equal(torch.load(file), x)


def moves_to_shared_memory():
    native().allocator_start()
    x = torch.arange(1000, dtype=torch.float32)
    x.share_memory_()
    assert (live(), x.is_shared(), x.sum()) == (0, True, 499_500)


def copies_on_write():
    native().allocator_start()
    x = torch.arange(1000, dtype=torch.float32)
    y = torch._lazy_clone(x)
    assert live() == 4000
    y += 1
    assert (live(), x.sum(), y.sum()) == (8000, 499_500, 500_500)
    del x, y
    assert live() == 0


def _convolve(channels):
    return torch.nn.functional.conv2d(torch.randn(2, 3, 16, 16), torch.randn(channels, 3, 3, 3))


def serves_onednn_too():
    """oneDNN asks for raw memory. What it took before the installation, in `allocator`, it may give back after it."""
    native().allocator_start()
    y = _convolve(64)
    assert y.untyped_storage().nbytes() < native().allocator_peak_bytes()


def survives_a_training_run():
    native().allocator_start()
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 4))
    optimiser = torch.optim.Adam(net.parameters())
    after = []
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(net(torch.randn(16, 3, 8, 8)), torch.arange(16) % 4)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        del loss
        after.append(live())
    assert after[1:] == [after[1]] * 4
    del net, optimiser
    assert live() == 0


ALLOCATOR = (
    counts_a_product,
    counts_only_what_was_allocated_since_the_start,
    counts_nothing_for_nothing,
    installs_once,
    sees_frees_on_another_thread,
    sees_allocations_on_another_thread,
    knows_the_peak_of_several_threads,
    keeps_count_under_contention,
    lives_beside_a_profiler,
    lends_its_memory_to_numpy,
    resizes,
    saves_and_loads,
    moves_to_shared_memory,
    copies_on_write,
    serves_onednn_too,
    survives_a_training_run,
)


def allocator():
    """{name: "" or what went wrong}"""
    try:
        live()
    except RuntimeError as error:
        found = {"says_that_it_counts_nothing": "" if "allocator_install" in str(error) else str(error)}
    _convolve(4)
    native().allocator_install()
    return found | {use.__name__: _error(use) for use in ALLOCATOR}


def _error(use):
    try:
        use()
    except Exception:
        return traceback.format_exc()
    return ""


def shipped():
    """{"function-variant": Memory, or why there is none}; without `compile`, whose memory is PyTorch's affair"""
    found = {}
    for name in registry.names():
        spec = registry.spec(name)
        for variant in registry.variants(name):
            if variant.kind == "compile":
                continue
            key = Key(name, variant.name, "tiny", spec.dtypes[0], "cpu")
            try:
                answer = measured(prepare(spec, key, registry.load(name, variant.name)))
            except NotImplementedError as error:
                answer = str(error)
            except Exception:
                answer = {"error": traceback.format_exc()}
            found[f"{name}-{variant.name}"] = answer
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({"planted": planted, "allocator": allocator, "shipped": shipped}[sys.argv[1]]()))
