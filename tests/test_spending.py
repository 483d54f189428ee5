"""Where seconds go, with parts that run at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from support import Clock

from autofn.measure.spending import Spending


@pytest.fixture
def clock():
    return Clock()


def fail_after(clock, seconds):
    clock.advance(seconds)
    raise ValueError("it failed")


def test_what_is_spent_on_a_thing_adds_up_even_where_it_fails(clock):
    spent = Spending(clock)
    with spent.on("samples"):
        clock.advance(3.0)
    with pytest.raises(ValueError, match="it failed"), spent.on("samples"):
        fail_after(clock, 2.0)
    assert spent.seconds == {"samples": 5.0}


def test_parts_share_the_time_that_passed_by_how_long_each_took(clock):
    spent = Spending(clock)
    with spent.shared():
        with spent.part("servers"), spent.part("servers of the first"):
            clock.advance(1.0)
        with spent.part("templates"):
            clock.advance(2.0)
    assert spent.seconds == pytest.approx({"servers": 0.75, "servers of the first": 0.75, "templates": 1.5})


def test_parts_of_several_threads_are_all_counted():
    spent = Spending()

    def work(name):
        with spent.part(name):
            sum(range(10_000))

    with spent.shared(), ThreadPoolExecutor(4) as pool:
        list(pool.map(work, ["one", "two", "three", "four"] * 5))
    assert set(spent.seconds) == {"one", "two", "three", "four"}
    assert all(seconds > 0 for seconds in spent.seconds.values())


def test_nothing_is_spent_where_nothing_ran(clock):
    spent = Spending(clock)
    with spent.shared():
        clock.advance(1.0)
    assert spent.seconds == {}
