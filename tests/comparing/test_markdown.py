"""The comment on a pull request: what changed first, worst before best, and nothing in it can be markup."""

from __future__ import annotations

from autofn.comparing import Compared
from autofn.comparing.builds import Side
from autofn.comparing.changes import Change, better, worse
from autofn.comparing.markdown import escape, markdown, summary
from autofn.measure.processes import Build


def change(verdict, variant="cpp", metric="time_s", **values):
    return Change("exp", variant, "small", "float32", "cpu", "forward", metric, verdict, **values)


SLOWER = change("slower", base=1e-6, head=2e-6, ratio=0.5, low=0.4, high=0.8, smallest_effect=0.02)
WORST = change("slower", "fused", base=1e-6, head=4e-6, ratio=0.25, low=0.2, high=0.3, smallest_effect=0.04)
FASTER = change("faster", "python", base=2e-6, head=1e-6, ratio=2.0, low=1.5, high=2.5)
MORE = change("more", metric="held_bytes", base=100, head=150)
NEW = change("more", metric="leaked_bytes", base=0, head=4)
BROKEN = change("broken", reason="ValueError: <b>no|")
SAME = change("same", base=1e-6, head=1e-6, ratio=1.0, low=0.99, high=1.01, smallest_effect=0.03)
UNSURE = change("cannot tell", "native", ratio=0.9, reason="seemed 9.0% slower at first, which did not hold")
GONE = change("n/a", "triton", reason="runs on cuda only, not on cpu")
ALL = [SAME, FASTER, MORE, SLOWER, UNSURE, BROKEN, WORST, NEW, GONE]


def compared(changes):
    sides = Side("main", "1" * 40, Build(), None), Side("<evil>|x", "2" * 40, Build(), None)
    return Compared(*sides, changes, {"ant": "the base has no Function ant"})


def test_regressions_come_worst_first_and_gains_best_first():
    assert worse(ALL) == [BROKEN, NEW, WORST, SLOWER, MORE]
    assert better([change("less", base=100, head=90), FASTER])[0] == FASTER
    assert worse(ALL, ("more",)) == [NEW, MORE]


def test_the_summary_counts_every_verdict():
    assert summary(ALL) == "2 slower, 2 more, 1 broken, 1 faster, 1 same, 1 cannot tell, 1 n/a"
    assert summary([]) == "nothing to compare"


def test_the_comment_says_what_changed_by_how_much_and_what_could_have_been_seen():
    lines = markdown(compared(ALL)).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert [line.split(" | ")[2] for line in table[2:]] == [
        "broken", "more leaked\\_bytes", "slower", "slower", "more held\\_bytes", "faster",
    ]  # fmt: skip
    assert "| exp cpp small float32 | forward | slower | 1.00 µs | 2.00 µs | +100.0% (+25.0% to +150.0%) |" in table
    assert "+50.0%" in table[-2]
    assert "+4" in table[3]
    text = "\n".join(lines)
    assert "Differences of 3.0% would have been seen in half of the 6 timed comparisons." in text
    assert "did not hold" in text
    assert "exp triton small float32: runs on cuda only, not on cpu" in text
    assert "ant: the base has no Function ant" in text


def test_text_from_outside_is_no_markup():
    text = markdown(compared(ALL))
    assert "<evil>" not in text
    assert "&lt;evil&gt;\\|x" in text
    assert "<b>" not in text
    assert escape("a|b\nc`d") == "a\\|b c\\`d"
    assert escape("[x](http://y)") == "\\[x\\]\\(http://y\\)"
