"""The asv suites: literal axes, versions from the source, samples handed over, runs that survive crashes and kills."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from asv import runner
from asv.benchmarks import Benchmarks
from asv.util import UserError
from asv_runner.benchmarks.mark import SkipNotImplemented
from support import (
    DECLARATION,
    ROOT,
    commit,
    copy_working_tree,
    environment,
    git,
    python,
    scratch_package,
    write_function,
)

from autofn import asv, asv_axes, asv_environment, asv_run, origins, registry, results
from autofn.asv_axes import DEVICES, DTYPES, WORKLOADS
from autofn.measure import lockstep
from autofn.measure.rows import MEMORY_METRICS
from autofn.records import ASV_JOURNAL, ASV_RESULTS, FAILED, OK, UNAVAILABLE, Journal
from autofn.terms import KINDS, PHASES
from trials import whole_run

COMMIT = "c" * 40

# The suites


def test_the_axes_begin_with_these_values_in_this_order():
    # Results of other commits are joined by them: append, never reorder, never remove.
    for axis, begin in {
        asv_axes.VARIANTS: ("eager", "compile", "native", "python", "fused", "cpp", "triton"),
        asv_axes.WORKLOADS: ("tiny", "small", "large"),
        asv_axes.DTYPES: ("float32", "bfloat16", "float64", "float16"),
        asv_axes.DEVICES: ("cpu", "cuda"),
        asv_axes.AXES: ("variant", "workload", "dtype", "device"),
        asv_axes.MEMORY: ("saved_bytes", "saved_new_bytes"),
        asv_axes.PHASES: ("forward", "backward", "forward_backward"),
    }.items():
        assert axis[: len(begin)] == begin


def test_the_axes_hold_whatever_the_registry_knows():
    assert set(KINDS) == set(asv_axes.VARIANTS)
    assert set(asv_axes.PHASES) <= set(PHASES)
    assert set(asv_axes.MEMORY) <= {metric for _, metric in MEMORY_METRICS}
    assert asv_axes.names() == list(registry.names())
    for name in registry.names():
        assert {found.name for found in registry.variants(name)} <= set(asv_axes.variants(name))
        assert asv_axes.variants(name)[: len(asv_axes.VARIANTS)] == list(asv_axes.VARIANTS)


@pytest.mark.parametrize("name", registry.names())
def test_the_version_in_the_source_is_the_specs(name):
    assert asv_axes.version(name) == registry.spec(name).version


@pytest.mark.parametrize("suites", [asv.timing, asv.memory])
def test_there_is_a_suite_a_function_with_all_axes_and_its_version(suites):
    found = suites()
    assert list(found) == list(registry.names())
    for name, suite in found.items():
        assert suite.__name__ == name
        assert suite.param_names == ["variant", "workload", "dtype", "device"]
        assert suite.params == [
            asv_axes.variants(name),
            list(asv_axes.WORKLOADS),
            list(asv_axes.DTYPES),
            list(asv_axes.DEVICES),
        ]
        assert suite.version == registry.spec(name).version
        # asv takes any attribute of this name, in any case, for a hook: with one it times single calls.
        assert not [attribute for attribute in vars(suite) if attribute.lower() == "setup"]


def test_the_two_suites_of_a_function_share_one_cache_and_two_functions_do_not():
    keys = {}
    for suites in (asv.timing(), asv.memory()):
        for name, suite in suites.items():
            code = suite.setup_cache.__code__
            keys.setdefault(name, set()).add((suite.setup_cache.__module__, code.co_firstlineno))
    assert all(len(found) == 1 for found in keys.values())
    assert len(set.union(*keys.values())) == len(keys)


def test_the_suites_load_neither_torch_nor_the_package_under_test():
    code = (
        "import sys; import benchmarks.timing, benchmarks.memory;"
        "print([name for name in ('torch', 'pandas', 'autofn') if name in sys.modules]);"
        "print(sorted(name for name in vars(benchmarks.timing) if isinstance(vars(benchmarks.timing)[name], type)))"
    )
    loaded, suites = python("-c", code, cwd=ROOT).stdout.splitlines()
    assert loaded == "[]"
    assert suites == str(list(registry.names()))


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.setattr(asv_axes, "FUNCTIONS", tmp_path)
    return tmp_path


def test_a_further_variant_stands_behind_the_others(folders):
    write_function(folders, "ant", python_b="", cpp_a="", helper="", pythonic="")
    assert asv_axes.variants("ant") == [*asv_axes.VARIANTS, "cpp_a", "python_b"]


@pytest.mark.parametrize("declared", ['version="3"', "version='3'"])
def test_the_version_is_read_however_it_is_written(folders, declared):
    write_function(folders, "ant", DECLARATION.replace('version="1"', declared).replace("= Spec(", "= autofn.Spec("))
    assert asv_axes.version("ant") == "3"


@pytest.mark.parametrize("declared", ["version=str(1)", "version=VERSION", "random=False"])
def test_a_version_that_is_no_literal_is_an_error(folders, declared):
    write_function(folders, "ant", DECLARATION.replace('version="1"', declared))
    with pytest.raises(ValueError, match=r"ant: Spec\(version=...\) must be a literal string"):
        asv_axes.version("ant")


def test_the_suites_of_a_repository_are_those_of_its_spec_files(tmp_path):
    write_function(tmp_path / "own", "ant", python_b="")
    (tmp_path / "src" / "pack").mkdir(parents=True)
    (tmp_path / "src" / "pack" / "specs.py").write_text(
        "from autofn import Spec\nA = Spec('bee', f, g, {}, {}, '2', variants={'python': f, 'cpp_c': f})\n"
    )
    (tmp_path / "pyproject.toml").write_text('[tool.autofn]\nspecs = ["own", "pack.specs"]\n')
    ant, bee = asv_axes.declared(tmp_path)
    assert (ant.name, ant.version, ant.axis[len(asv_axes.VARIANTS) :]) == ("ant", "1", ["python_b"])
    assert (bee.name, bee.version, bee.axis[len(asv_axes.VARIANTS) :]) == ("bee", "2", ["cpp_c"])
    assert list(asv.memory(tmp_path)) == ["ant", "bee"]
    assert asv_axes.written("bee", tmp_path) == ["eager", "compile", "python", "cpp_c"]
    assert asv_axes.selected(["timing.bee"], tmp_path) == ["bee"]
    (tmp_path / "pyproject.toml").write_text('[tool.autofn]\nspecs = ["owns"]\n')
    origins.forget()
    with pytest.raises(LookupError, match=r"names 'owns' for its specs, and there is no "):
        asv_axes.declared(tmp_path)


# What the benchmarks hand over

CASE = ("eager", "tiny", "float32", "cpu")


def cases(status=OK, reason=""):
    result = {"status": status, "reason": reason, "value": 8.0, "samples": [1.0, 2.0], "number": 3}
    return {
        "found": {(*CASE, "forward", metric): result for metric in ("time_s", "saved_bytes")},
        "otherwise": "not asked",
    }


@pytest.fixture
def suite():
    name = registry.names()[0]
    return asv.timing()[name](), asv.memory()[name]()


def test_samples_and_bytes_are_handed_over_as_they_are(suite):
    timing, memory = suite
    assert timing.forward_time(cases(), *CASE) == {"samples": [1.0, 2.0], "number": 3}
    assert memory.saved_bytes(cases(), *CASE) == 8.0


@pytest.mark.parametrize(
    ("found", "case", "error", "words"),
    [
        (cases(UNAVAILABLE, "no compiler"), CASE, SkipNotImplemented, "no compiler"),
        (cases(FAILED, "it broke"), CASE, RuntimeError, "it broke"),
        (cases(), ("cpp", *CASE[1:]), SkipNotImplemented, "not asked"),
    ],
)
def test_what_is_not_there_is_skipped_or_failed_with_its_reason(suite, found, case, error, words):
    for benchmark in (suite[0].forward_time, suite[1].saved_bytes):
        with pytest.raises(error, match=words):
            benchmark(found, *case)


def test_what_asv_selects_is_known_before_it_runs(folders):
    for name in ("ant", "anteater", "bee"):
        write_function(folders, name, cpp_a="")
    for patterns, names in {
        (): ["ant", "anteater", "bee"],
        (r"\.ant\.",): ["ant"],
        ("ant.*float32.*cpu",): ["ant", "anteater"],
        ("held_bytes", "nothing"): ["ant", "anteater", "bee"],
        (r"timing\.bee.*\('cpp_a', 'tiny', 'float16', 'cuda'\)$", r"\.ant\."): ["ant", "bee"],
        ("float128",): [],
    }.items():
        assert asv_axes.selected(patterns) == names
    assert asv_axes.written("ant") == ["eager", "compile", "python", "cpp_a"]


def test_more_work_is_estimated_to_take_longer(folders):
    write_function(folders, "ant")
    write_function(folders, "bee", cpp="")
    ant, bee = (asv_run.estimate_s("quick", [name]) for name in ("ant", "bee"))
    assert 1 < ant < bee < 60
    assert asv_run.estimate_s("quick", ["ant", "bee"]) == pytest.approx(ant + bee)
    estimates = [asv_run.estimate_s(name, ["ant"]) for name in ("glance", "quick", "standard", "full")]
    assert estimates == sorted(estimates)
    assert asv_run.estimate_s("quick", ["ant"], 2) > ant


def test_an_unknown_profile_is_an_error(monkeypatch):
    monkeypatch.setenv("AUTOFN_PROFILE", "fast")
    with pytest.raises(ValueError, match="AUTOFN_PROFILE: must be one of glance, quick, standard, full, got 'fast'"):
        asv_run.profile()


def test_a_run_may_be_of_one_device(monkeypatch):
    known = {"conditions": {"cpu": {}, "cuda": {}}, "dtypes": ["float32"], "workloads": ["small"]}
    for name, devices in {"cuda": {"cuda"}, "": {"cpu", "cuda"}}.items():
        monkeypatch.setenv("AUTOFN_DEVICE", name)
        groups = asv_run._groups("ant", known, asv_run.PROFILES["quick"])
        assert {group.device for group in groups} == devices
    monkeypatch.setenv("AUTOFN_DEVICE", "gpu")
    with pytest.raises(ValueError, match="AUTOFN_DEVICE: must be one of cpu, cuda, got 'gpu'"):
        asv_run.devices()


AXES = [[repr(value) for value in axis] for axis in (asv_axes.VARIANTS, WORKLOADS, DTYPES, DEVICES)]
OURS = {
    "name": "timing.ant.forward_time", "params": AXES, "param_names": [*asv_axes.AXES], "setup_cache_key": "asv.ant:52",
}  # fmt: skip
THEIRS = {"name": "theirs.sort.time_it", "params": [["<a>", "<b>"]] * 4, "param_names": [*asv_axes.AXES]}
PLAIN = {"name": "theirs.plain.time_it", "params": [], "param_names": []}


def listed(regex, *benchmarks):
    return Benchmarks(SimpleNamespace(benchmark_dir="benchmarks"), benchmarks, regex)


def cases_at(places):
    every = list(itertools.product(asv_axes.VARIANTS, WORKLOADS, DTYPES, DEVICES))
    return [every[place] for place in places]


@pytest.mark.parametrize(
    ("profile", "gpu", "device", "regex", "expected"),
    [
        ("glance", False, "", None, {("small", "float32", "cpu")}),
        ("standard", False, "", "large|theirs", {("large", dtype, "cpu") for dtype in ("float32", "bfloat16")}),
        ("glance", True, "", None, {("small", "float32", device) for device in ("cpu", "cuda")}),
        ("glance", True, "cuda", None, {("small", "float32", "cuda")}),
        ("quick", False, "", "float64|theirs", set()),
        ("quick", False, "cuda", None, set()),
    ],
)
def test_asv_starts_a_process_for_what_is_measured_and_for_nothing_else(
    monkeypatch, profile, gpu, device, regex, expected
):
    monkeypatch.setenv("AUTOFN_PROFILE", profile)
    monkeypatch.setenv("AUTOFN_DEVICE", device)
    monkeypatch.setattr(asv_run, "has_cuda", lambda: gpu)
    assert Benchmarks.benchmark_selection.fget is asv_environment.measured_selection
    found = listed(regex, OURS, THEIRS, PLAIN).filter_out({PLAIN["name"]}).benchmark_selection
    mine = cases_at(found.get(OURS["name"], []))
    assert set(mine) == {(variant, *case) for variant in asv_axes.VARIANTS for case in expected}
    assert len(mine) == len(set(mine))
    assert found[THEIRS["name"]] == list(range(16)), "what is not ours is all there"
    assert PLAIN["name"] not in found


@pytest.mark.parametrize(
    ("profile", "device", "regex", "words"),
    [
        ("quick", "", "float64", "nothing that is selected is measured at profile quick here; AUTOFN_PROFILE names"),
        ("quick", "gpu", None, "AUTOFN_DEVICE: must be one of cpu, cuda, got 'gpu'"),
        ("fast", "", None, "AUTOFN_PROFILE: must be one of glance"),
    ],
)
def test_asv_is_told_that_it_has_nothing_to_do(monkeypatch, profile, device, regex, words):
    monkeypatch.setenv("AUTOFN_PROFILE", profile)
    monkeypatch.setenv("AUTOFN_DEVICE", device)
    monkeypatch.setattr(asv_run, "has_cuda", lambda: False)
    with pytest.raises(UserError, match=words):
        listed(regex, OURS).benchmark_selection  # noqa: B018


def test_of_a_commit_that_fails_the_cases_fail_that_would_have_been_measured(monkeypatch):
    monkeypatch.setenv("AUTOFN_PROFILE", "glance")
    monkeypatch.setattr(asv_run, "has_cuda", lambda: False)
    found = runner.fail_benchmark(OURS, stderr="it does not build").result
    failed = {case[1:] for case, value in zip(cases_at(range(len(found))), found, strict=True) if value is None}
    assert failed == {("small", "float32", "cpu")}
    assert runner.fail_benchmark(THEIRS).result == [None] * 16
    assert runner.fail_benchmark(PLAIN).result == [None]


# The run behind a setup_cache

SEGFAULT = "import os, signal\n\n\ndef apply(x):\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
HANG = "import time\n\n\ndef apply(x):\n    time.sleep(600)\n"
UNABLE = 'raise NotImplementedError("ant (cpp): no kernel")\n'


@pytest.fixture
def sampled(tmp_path, monkeypatch):
    """`sampled(name)`: what asv is given for a Function of a scratch package, planted by `sampled.plant`."""
    functions = scratch_package(tmp_path / "package")
    for name, value in {
        "PYTHONPATH": str(tmp_path / "package"), "ASV_CONF_DIR": str(tmp_path), "ASV_COMMIT": COMMIT,
        "ASV_ENV_NAME": "e", "AUTOFN_PROFILE": "quick",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    for profile in ("glance", "quick"):
        monkeypatch.setitem(asv_run.PROFILES, profile, {**asv_run.PROFILES[profile], "budget_s": 0.01, "rounds": 2})

    def run(name, version="1"):
        return asv_run.sample(name, version)

    run.plant = lambda name, **variants: write_function(functions, name, **variants)
    run.root = tmp_path
    run.journal = tmp_path / ASV_JOURNAL / "e" / COMMIT / "ant.quick.jsonl"
    return run


def outcomes(found, variant):
    return {(r["status"], r["reason"]) for key, r in found["found"].items() if key[0] == variant}


def test_a_crash_or_a_hang_costs_its_own_arm_and_the_others_are_measured(sampled, monkeypatch):
    monkeypatch.setattr(lockstep, "COMPILE_S", 3.0)
    monkeypatch.setattr(lockstep, "ANSWER_S", 3.0)
    sampled.plant("ant", native=SEGFAULT, python_hang=HANG, cpp=UNABLE)
    found = sampled("ant")
    assert outcomes(found, "native") == {(FAILED, "the process was lost: killed by SIGSEGV")}
    assert outcomes(found, "python_hang") == {(FAILED, "hangs: no answer within 3 s, so it was killed")}
    assert outcomes(found, "cpp") == {(UNAVAILABLE, "no kernel")}
    for variant in ("eager", "python"):
        for workload in asv_axes.WORKLOADS:
            for phase in asv_axes.PHASES:
                time_s = found["found"][variant, workload, "float32", "cpu", phase, "time_s"]
                assert time_s["status"] == OK
                assert min(time_s["samples"]) > 0
            for metric in asv_axes.MEMORY:
                assert (variant, workload, "float32", "cpu", "forward", metric) in found["found"]
    assert "float64" not in {key[2] for key in found["found"]}, "the profile asks for float32 alone"


def test_a_glance_is_of_the_small_workload_alone(sampled, monkeypatch):
    monkeypatch.setenv("AUTOFN_PROFILE", "glance")
    sampled.plant("ant")
    found = sampled("ant")
    assert {key[1:4] for key in found["found"]} == {("small", "float32", "cpu")}
    assert found["otherwise"] == "not among the cases of this profile, device or Function"


def test_a_commit_without_the_function_or_with_other_inputs_says_so(sampled):
    sampled.plant("ant")
    assert sampled("bee") == {"found": {}, "otherwise": "this commit has no Function bee"}
    words = "this commit has inputs of version 1, the suite is for version 2"
    assert sampled("ant", "2") == {"found": {}, "otherwise": words}


def test_an_interrupted_run_goes_on_and_a_delivered_one_does_not(sampled):
    sampled.plant("ant")
    found = sampled("ant")
    lines = sampled.journal.read_text().splitlines(keepends=True)
    (run,) = {json.loads(line)["run"] for line in lines}
    # Killed within the second of three groups.
    sampled.journal.write_text("".join(lines[: len(lines) // 2]) + lines[-1][:30])
    again = sampled("ant")
    records = list(Journal(sampled.journal).records())
    assert {record.run for record in records} == {run}
    assert set(again["found"]) == set(found["found"])
    first = (*CASE, "forward", "time_s")
    assert again["found"][first] == found["found"][first], "what was measured is not measured again"

    # asv has saved the commit since: another `asv run` is a new measurement.
    saved = sampled.root / ASV_RESULTS / "vm" / f"{COMMIT[:8]}-e.json"
    saved.parent.mkdir(parents=True)
    saved.write_text("{}")
    later = sampled.journal.stat().st_mtime + 10
    os.utime(saved, (later, later))
    third = sampled("ant")
    assert set(third["found"]) == set(found["found"])
    assert third["found"][first] != found["found"][first]
    assert len({record.run for record in Journal(sampled.journal).records()}) == 2


RUNNING = "from autofn import asv_run; asv_run.sample('ant', '1')"


def test_a_run_that_is_killed_keeps_its_groups_and_goes_on(sampled):
    sampled.plant("ant")
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNING], cwd=sampled.root,
        env=environment(sampled.root / "package", **{k: v for k, v in os.environ.items() if k[:4] in ("ASV_", "AUTO")}),
    )  # fmt: skip
    end = time.monotonic() + 60
    while not (sampled.journal.exists() and sampled.journal.stat().st_size) and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = sampled.journal.read_text().splitlines()
    found = sampled("ant")
    after = sampled.journal.read_text().splitlines()
    assert after[: len(before)] == before
    assert {key[1] for key in found["found"]} == set(asv_axes.WORKLOADS)
    assert len({json.loads(line)["run"] for line in after}) == 1


# asv itself


def run_asv(folder, *words):
    """asv in the scratch repository, with what it knows of the machine there and this checkout's compiler caches."""
    home = Path.home()
    caches = {
        "CCACHE_DIR": os.environ.get("CCACHE_DIR", str(home / ".cache" / "ccache")),
        "TORCHINDUCTOR_CACHE_DIR": str(ROOT / "build" / "inductor"),
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOFN_", "ASV_", "PYTHONPATH"))}
    return subprocess.run(
        [sys.executable, "-m", "asv", *words], cwd=folder, capture_output=True, text=True, timeout=400,
        env={**kept, **caches, "HOME": str(folder), "AUTOFN_PROFILE": "quick"},
    )  # fmt: skip


def history(folder):
    """A scratch repository of three commits that asv has run over: a Function added, then a change of Python alone."""
    copy_working_tree(folder)
    functions = folder / "autofn" / "functions"
    # The two that build fastest.
    first, second = sorted(registry.names(), key=lambda name: kernel_size(functions / name))[:2]
    for name in registry.names():
        if name not in (first, second):
            shutil.rmtree(functions / name)
    for path in functions.glob("*/fused*.py"):
        path.unlink()
    with (folder / "autofn" / "asv_run.py").open("a") as file:
        file.write('\n\nPROFILES["quick"]["workloads"] = ("tiny",)\n')
    kept = folder.with_name("second")
    shutil.move(functions / second, kept)
    git(folder, "init", "--quiet", "--initial-branch=main")
    hashes = [commit(folder, "one Function")]
    shutil.move(kept, functions / second)
    hashes.append(commit(folder, "add the other"))
    with (functions / first / "python.py").open("a") as file:
        file.write("# A comment.\n")
    hashes.append(commit(folder, "change Python alone"))
    assert run_asv(folder, "machine", "--yes").returncode == 0
    axes = r"\('(eager|compile|python|cpp)', 'tiny', 'float32', 'cpu'\)"
    done = run_asv(folder, "run", "ALL", "-b", rf"(forward_time|saved_bytes){axes}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 Functions at profile quick: about" in done.stdout
    return hashes, (first, second)


def kernel_size(folder):
    return sum(path.stat().st_size for path in folder.glob("kernel.cpp"))


@pytest.mark.slow
def test_asv_runs_compares_and_publishes_a_range_in_which_a_function_was_added(tmp_path):
    folder = tmp_path / "repository"
    hashes, names = history(folder)
    assert_rows(results.load(folder), hashes, names)
    assert_a_second_run_measures_nothing(folder)
    assert_compared(folder, hashes, names)
    assert_published(folder, names)


def assert_rows(found, hashes, names):
    """Each commit has the rows of its Functions, with samples and conditions; what it lacks has none."""
    assert set(found["commit"]) == set(hashes)
    for commit_hash in hashes:
        mine = found[found["commit"] == commit_hash]
        there = names[:1] if commit_hash == hashes[0] else names
        assert set(mine["function"]) == set(there), "what a commit lacks has no row, not one of another commit"
        for name in there:
            rows = mine[mine["function"] == name]
            assert set(rows["metric"]) == {"time_s", "saved_bytes"}
            cannot = [v.name for v in registry.variants(name) if registry.unavailable(name, v.name)]
            missing = rows[rows["variant"].isin(cannot)]
            assert set(missing["status"]) <= {UNAVAILABLE}
            assert missing["reason"].all(), "what cannot run here says why"
            rows = rows.drop(missing.index)
            asked = {"eager", "compile", "python", "cpp"}
            assert set(rows["variant"]) == {v.name for v in registry.variants(name) if v.name in asked}
            assert set(rows["status"]) == {OK}, list(rows["reason"])
            times = rows[rows["metric"] == "time_s"]
            assert (times["value"] > 0).all()
            assert times["samples"].map(len).min() >= 3, "the journal has the raw samples"
            assert set(times["allocator"]) == {"settled"}
            assert times["run"].nunique() == 1
    spent = whole_run.where_it_went(found, 1e6)
    assert spent["cases"] == sum(len(set(mine["variant"])) for _, mine in found.groupby(["commit", "function"]))
    assert spent["groups"] == 1 + 2 + 2, "one a commit and Function: of one workload, dtype and device"
    assert set(spent["spent_s"]) == {"servers", "templates", "forks", "warm-up", "samples", "rest"}
    assert 0 < spent["spent_s"]["samples"] < spent["spent_s"]["servers"]
    assert spent["samples"] == round(spent["spent_s"]["samples"] / 1e6, 3)
    assert spent["overhead"] == 1, "of so long a run hardly anything is measuring"


def assert_a_second_run_measures_nothing(folder):
    files = {path: path.read_bytes() for path in (folder / ASV_JOURNAL).rglob("*.jsonl")}
    assert len(files) == 5, "one a Function and commit"
    done = run_asv(folder, "run", "--skip-existing-commits", "ALL")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert {path: path.read_bytes() for path in (folder / ASV_JOURNAL).rglob("*.jsonl")} == files


def assert_compared(folder, hashes, names):
    compared = run_asv(folder, "compare", hashes[1], hashes[2])
    assert compared.returncode == 0, compared.stderr
    for name in names:
        assert f"timing.{name}.forward_time" in compared.stdout
        assert f"memory.{name}.saved_bytes" in compared.stdout


def assert_published(folder, names):
    published = run_asv(folder, "publish")
    assert published.returncode == 0, published.stdout + published.stderr
    index = json.loads((folder / ".asv" / "html" / "index.json").read_text())
    assert {f"{kind}.{name}" for kind in ("timing", "memory") for name in names} == {
        benchmark.rpartition(".")[0] for benchmark in index["benchmarks"]
    }
    assert len(index["revision_to_hash"]) == 3
