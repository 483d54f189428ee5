"""A rule that ends, blocks or breaks its worker costs its own outcome, and the next rule runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

import autofn
from autofn import checks, sources, testing
from autofn.checks import junit, plan, runner
from autofn.checks.rule import Finding, Rule, Seen
from autofn.checks.runner import Job
from autofn.checks.subject import of_callable
from autofn.records import FAILED, OK, UNAVAILABLE


def make_inputs(dtype=torch.float64):
    return (torch.linspace(-1, 2, 7, dtype=dtype, requires_grad=True),)


def reference(x):
    return x * x


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        return 2 * ctx.saved_tensors[0] * grad_output


class Wrong(Square):
    @staticmethod
    def backward(ctx, grad_output):
        return 3 * ctx.saved_tensors[0] * grad_output


class Ends(Square):
    @staticmethod
    def backward(ctx, grad_output):
        os.kill(os.getpid(), signal.SIGSEGV)


def rule(run, severity="error", name="planted"):
    return Rule(name, severity, "planted", run)


def job(run, **kind):
    return Job(rule(run, **kind), lambda: of_callable(Square, make_inputs))


def fine(subject):
    yield Seen(0.25)


def found(subject):
    yield Finding("it is so", "input 0", "1", "2", 0.5, "change it")


def crashes(subject):
    os.abort()
    yield


def ends_quietly(subject):
    os._exit(0)
    yield


def hangs(subject):
    time.sleep(600)
    yield


def breaks(subject):
    yield Seen(1 / 0)


def absent(subject):
    raise NotImplementedError("there is nothing to look at")
    yield


def test_each_job_has_its_own_outcome_whatever_became_of_the_one_before():
    jobs = [job(each) for each in (fine, crashes, found, hangs, ends_quietly, breaks, absent, fine)]
    outcomes = list(runner.run(jobs, limit_s=5.0))
    statuses = [OK, FAILED, FAILED, FAILED, FAILED, FAILED, UNAVAILABLE, OK]
    assert [outcome.status for outcome in outcomes] == statuses
    reasons = [outcome.reason for outcome in outcomes]
    assert "SIGABRT" in reasons[1]
    assert reasons[2] == "input 0: it is so (observed 1, expected 2)"
    assert "no answer after 5 s" in reasons[3]
    assert "exit status 0" in reasons[4]
    assert "ZeroDivisionError" in reasons[5]
    assert reasons[6] == "there is nothing to look at"
    assert outcomes[0].error == 0.25
    assert outcomes[2].findings[0].fix == "change it"


@pytest.mark.parametrize("isolated", [True, False])
def test_a_warning_is_told_and_is_no_failure(isolated):
    (outcome,) = runner.run([job(found, severity="warning")], isolated=isolated)
    assert outcome.status == OK
    assert [each.severity for each in outcome.findings] == ["warning"]


def children():
    """The processes of this one, those that have ended and not been waited for among them."""
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


def test_a_run_that_is_not_read_to_its_end_leaves_no_process():
    others = children()
    outcomes = runner.run([job(fine), job(hangs)])
    assert next(outcomes).status == OK
    assert children() > others
    outcomes.close()
    assert children() <= others


def test_check_of_a_function_gives_findings_as_data():
    assert autofn.check(Square, make_inputs, reference=reference).errors == []
    found = autofn.check(Wrong, make_inputs, reference=reference, select=["gradient"])
    assert {each.rule for each in found.errors} == {"gradient"}
    assert found.frame["status"].tolist() == [FAILED]
    assert "error gradient" in str(found)


def test_a_function_that_ends_the_process_is_a_finding():
    found = autofn.check(Ends, make_inputs, reference=reference, select=["gradient"])
    assert "SIGSEGV" in found.errors[0].message


def test_a_forward_that_does_not_run_is_one_finding_and_all_else_is_not_applicable():
    def raises(x):
        raise TypeError("planted: wants two arguments")

    found = autofn.check(raises, make_inputs, reference=reference)
    assert [each.rule for each in found.errors] == ["runs"]
    assert "planted: wants two arguments" in found.errors[0].message
    # Those that look at code, inputs or environment alone may still have something to say.
    assert {each.rule for each in found.findings if not each.rule.startswith("timing-")} == {"runs"}


def test_a_suppressed_finding_does_not_count_and_is_kept_with_its_reason():
    found = autofn.check(
        Wrong, make_inputs, reference=reference, select=["gradient"], suppress={"gradient": "planted on purpose"}
    )
    assert found.findings == []
    (record,) = found.records
    assert record.status == OK
    assert record.reason.startswith("suppressed (planted on purpose): ")
    assert record.detail["findings"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"select": ["gradiant"]}, "no rule 'gradiant'; did you mean gradient"),
        ({"ignore": ["valu"]}, "no rule 'valu'; did you mean value"),
        ({"suppress": {"valu": "why"}}, "no rule 'valu'; did you mean value"),
    ],
)
def test_an_unknown_rule_is_an_error_that_helps(options, words):
    with pytest.raises(LookupError, match=words):
        autofn.check(Square, make_inputs, **options)


def test_misuse_is_said():
    with pytest.raises(ValueError, match="make_inputs must be given"):
        autofn.check(Square)
    with pytest.raises(ValueError, match="level: must be one of quick, full"):
        autofn.check(Square, make_inputs, level="slow")
    with pytest.raises(ValueError, match=r"must be a torch\.autograd\.Function or a callable"):
        autofn.check(3, make_inputs)


def test_a_rule_is_chosen_by_pattern_and_whatever_its_level_by_name(monkeypatch):
    slow = "takes-a-minute"
    planted = (*checks.rules(), Rule(slow, "error", "planted", fine, level="full"))
    monkeypatch.setattr(plan, "rules", lambda: planted)
    assert slow not in [each.id for each in plan.chosen()]
    assert [each.id for each in plan.chosen([slow])] == [slow]
    assert {each.id for each in plan.chosen(["grad*"])} == {
        each.id for each in plan.chosen() if each.id.startswith("grad")
    }
    assert "value" not in [each.id for each in plan.chosen(ignore=["val*"])]


def test_junit_has_a_test_a_rule_and_escapes_what_xml_cannot_hold():
    class Odd(Square):
        @staticmethod
        def backward(ctx, grad_output):
            raise RuntimeError("<not> & \x1b[31mXML")

    found = autofn.check(Odd, make_inputs, reference=reference, select=["value", "gradient"])
    root = ElementTree.fromstring(junit.xml(found.records))
    assert [case.get("name") for case in root.iter("testcase")] == [
        "value [given float64 cpu]", "gradient [given float64 cpu]",
    ]  # fmt: skip
    (failure,) = root.iter("failure")
    assert "<not> & \ufffd[31mXML" in failure.get("message")
    assert root.find("testsuite").get("failures") == "1"


@testing.each_rule
def test_assert_correct_passes_what_is_right_rule_by_rule(rule):
    testing.assert_correct(Square, make_inputs, reference=reference, rule=rule)


def test_assert_correct_fails_with_the_findings():
    with pytest.raises(pytest.fail.Exception, match="gradient: "):
        testing.assert_correct(Wrong, make_inputs, reference=reference)


# The command line, on somebody's own file

OWN = """
import torch


class Mine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        return FACTOR * ctx.saved_tensors[0] * grad_output


FACTOR = 2


def make_inputs():
    return torch.linspace(-1, 2, 7, requires_grad=True)


def reference(x):
    return x * x
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "wrong.py").write_text(OWN.replace("FACTOR = 2", "FACTOR = 3"))
    return tmp_path


def command(*words):
    done = subprocess.run(
        [sys.executable, "-m", "autofn", "check", *words], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("place", ["{}.py", "{}"])
def test_a_users_own_file_or_module_is_checked(own, place):
    words = ["--inputs", f"{place.format('mine')}:make_inputs", "--select", "gradient", "--select", "value"]
    words += ["--reference", f"{place.format('mine')}:reference"]
    status, out = command(f"{place.format('mine')}:Mine", *words)
    assert (status, "0 errors" in out) == (0, True), out
    status, out = command(f"{place.format('wrong')}:Mine", *words, "--json", "out.json", "--junit", "out.xml")
    assert status == 1
    assert "error gradient: Mine" in out
    assert json.loads((own / "out.json").read_text())[-1]["metric"] == "gradient"
    assert ElementTree.parse(own / "out.xml").getroot().find(".//failure") is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mine.py:Mine"], "--inputs pkg.module:make_inputs must say what makes its arguments"),
        (["mine.py:Mime", "--inputs", "mine.py:make_inputs"], "mine.py has no 'Mime'; did you mean Mine"),
        (["nine.py:Mine", "--inputs", "mine.py:make_inputs"], "there is no file nine.py"),
        (["nine:Mine", "--inputs", "mine.py:make_inputs"], "there is no module 'nine'"),
        (["mine.py:FACTOR", "--inputs", "mine.py:make_inputs"], "must be a torch.autograd.Function or a callable"),
        (["mine.py:Mine", "--inputs", "mine.py"], "must be pkg.module:NAME or path/to/file.py:NAME"),
        (["linear", "--inputs", "mine.py:make_inputs"], "go with one of yours"),
        (["linear", "--suppress", "value"], "must be RULE=REASON"),
        (["linear", "--select", "valeu"], "there is no rule 'valeu'; did you mean value"),
        (["linear", "--level", "slow"], "level: must be one of quick, full"),
    ],
)
def test_a_mistake_is_a_sentence_and_exit_status_2(own, words, said):
    status, out = command(*words)
    assert status == 2, out
    assert said in " ".join(out.split())
    assert "Traceback" not in out


def test_a_file_that_cannot_be_imported_is_a_sentence(own):
    (own / "broken.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(ValueError, match=r"broken\.py cannot be imported: ModuleNotFoundError"):
        sources.named("broken.py:Mine")


def test_workers_of_several_lists_run_at_once_and_a_crash_is_told_at_once():
    lists = [[job(crashes), job(fine)], [job(fine), job(found)], [job(fine)]]
    begin = time.monotonic()
    told = {(which, number): outcome.status for which, number, outcome in runner.run_all(lists)}
    assert told == {(0, 0): FAILED, (0, 1): OK, (1, 0): OK, (1, 1): FAILED, (2, 0): OK}
    assert time.monotonic() - begin < runner.LIMIT_S["quick"] - 5


def test_closing_a_run_ends_its_workers_at_once():
    others = children()
    outcomes = runner.run_all([[job(fine), job(hangs)], [job(fine), job(hangs)]])
    next(outcomes)
    assert children() > others
    begin = time.monotonic()
    outcomes.close()
    assert time.monotonic() - begin < 10
    assert children() <= others


def test_two_functions_of_one_name_keep_their_own_results(own):
    both = ["mine.py:Mine", "wrong.py:Mine", "--inputs", "mine.py:make_inputs", "--select", "gradient"]
    status, out = command(*both, "--json", "out.json")
    assert status == 1, out
    found = {record["function"]: record["status"] for record in json.loads((own / "out.json").read_text())}
    assert found == {"mine.py:Mine": OK, "wrong.py:Mine": FAILED}


# A process as users have it: torch has run on several threads before the rules are forked from it.
SEVERAL_THREADS = """
import torch
from autofn.checks import plan, runner
from autofn.checks.subject import of_callable
torch.set_num_threads(2)
torch.randn(1 << 20).exp().sum()
torch.randn(300, 300) @ torch.randn(300, 300)
def make_inputs(dtype=torch.float64):
    return (torch.linspace(-1, 2, 12, dtype=dtype).reshape(3, 4).requires_grad_(),)
class Soft(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.softmax(-1)
        ctx.save_for_backward(y)
        return y
    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return y * (grad_output - (grad_output * y).sum(-1, keepdim=True))
subject = of_callable(Soft, make_inputs, reference=lambda x: x.softmax(-1))
# From this very thread, whose pool of threads the fork believes to have.
outcomes = runner.run([runner.Job(rule, lambda: subject) for rule in plan.chosen()])
print([str(each) for outcome in outcomes for each in outcome.findings if each.severity == "error"])
"""


def test_no_rule_hangs_in_a_fork_of_a_process_that_has_run_on_several_threads():
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL_THREADS], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
