"""Servers, templates and generations: what is shared, what is fresh, and what several threads ask for at once."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from autofn.measure.channel import HangError, Listener, LostError, connect
from autofn.measure.lockstep import ArmSpec, Effort, Lockstep, in_parallel
from autofn.measure.processes import Build, Processes, Seat
from autofn.records import Key

BUILD = Build(package="planted", environment=(("PYTHONPATH", str(Path(__file__).parent)),))
ARMS = [ArmSpec(name, Key("spin", name, "tiny", "float32", "cpu"), BUILD) for name in ("eager", "python")]
EFFORT = Effort(0.0, rounds=3, servers=3, most_passes=2)


@pytest.fixture(scope="module")
def two_groups():
    """Two comparisons by the same processes: their outcomes, and the servers' process ids after each."""
    outcomes, pids, seconds = [], [], []
    with Processes() as processes:
        for _ in range(2):
            begin = time.monotonic()
            outcomes.append(Lockstep(processes, ARMS, ("forward",), EFFORT).run())
            seconds.append(time.monotonic() - begin)
            pids.append({seat: server.process.pid for seat, server in processes.servers.items()})
    return outcomes, pids, seconds


def test_every_server_gives_a_generation_a_pass_of_every_arm(two_groups):
    for outcome in two_groups[0]:
        assert outcome.failed == outcome.unavailable == outcome.no_way == {}
        for arm in ("eager", "python"):
            servers = outcome.times[arm, "forward", "wall"]
            assert [[len(samples) for samples in generations] for generations in servers] == [[3]] * 3
            # 200 and 260 us by the clock.
            assert min(sample for generations in servers for samples in generations for sample in samples) >= 200e-6


def test_it_tells_where_its_time_went(two_groups):
    for outcome, seconds in zip(two_groups[0], two_groups[2], strict=True):
        assert set(outcome.spent_s) == {"servers", "templates", "forks", "warm-up", "samples"}
        # Looking whether others are busy takes 0.2 s.
        assert seconds - 0.5 <= sum(outcome.spent_s.values()) <= seconds
        clocked = sum(
            sum(samples) * outcome.numbers[str(arm.key), "forward", "wall"]
            for arm in ARMS
            for generations in outcome.times[arm.name, "forward", "wall"]
            for samples in generations
        )
        assert clocked <= outcome.spent_s["samples"]
    first, second = (outcome.spent_s["servers"] for outcome in two_groups[0])
    assert first > second, "the servers of the first were there"


def test_servers_are_kept_for_the_next_group(two_groups):
    first, second = two_groups[1]
    assert first == second
    assert set(first) == {Seat(BUILD, number) for number in range(3)}
    assert len(set(first.values())) == 3


def test_they_end_with_the_coordinator(two_groups):
    for pid in two_groups[1][0].values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_budget_that_is_left_buys_further_passes_until_it_is_enough():
    asked = []

    def enough(times):
        asked.append(len(times["eager", "forward", "wall"][0]))
        return len(asked) == 2

    effort = Effort(600.0, rounds=2, servers=2, enough=enough)
    with Processes() as processes:
        times = Lockstep(processes, ARMS, ("forward",), effort).run().times
    # One generation a server is not asked about.
    assert asked == [2, 3]
    assert [len(generations) for generations in times["python", "forward", "wall"]] == [3, 3]


def test_a_server_that_was_killed_is_started_again():
    with Processes() as processes:
        seat = Seat(BUILD)
        processes.server(seat)
        before = processes.servers[seat].process
        before.kill()
        before.wait()
        processes.server(seat)
        assert processes.servers[seat].process.pid != before.pid


def test_what_is_done_in_parallel_is_begun_in_order_and_all_done():
    begun = []
    in_parallel([partial(begun.append, number) for number in range(50)], 1)
    assert begun == list(range(50))
    meeting = threading.Barrier(3, timeout=60)
    in_parallel([meeting.wait] * 3, 3)


def test_what_one_of_them_raises_is_raised():
    def fails():
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        in_parallel([fails, lambda: None], 2)


def test_each_thread_gets_the_worker_that_it_waits_for_in_whatever_order_they_come(tmp_path):
    listener = Listener(tmp_path / "socket")
    names = [f"worker {number}" for number in range(8)]
    got = {}

    def wait(name):
        channel, hello = listener.accept(name, 60)
        got[name] = hello["name"]
        channel.close()

    threads = [threading.Thread(target=wait, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    kept = [connect(str(tmp_path / "socket"), {"name": name}) for name in reversed(names)]
    for thread in threads:
        thread.join()
    assert got == {name: name for name in names}
    for channel in kept:
        channel.close()
    listener.close()


def test_one_that_was_given_up_is_sent_away_and_one_that_ended_is_lost(tmp_path):
    listener = Listener(tmp_path / "socket")
    with pytest.raises(HangError, match="late did not start within 0 s"):
        listener.accept("late", 0)
    late = connect(str(tmp_path / "socket"), {"name": "late"})
    other = connect(str(tmp_path / "socket"), {"name": "other"})
    listener.accept("other", 60)[0].close()
    with pytest.raises(LostError):
        late.receive(60)
    begin = time.monotonic()
    with pytest.raises(LostError, match="dead ended before it was ready"):
        listener.accept("dead", 60, alive=lambda: False)
    assert time.monotonic() - begin < 30
    for channel in (late, other):
        channel.close()
    listener.close()
