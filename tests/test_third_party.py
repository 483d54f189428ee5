"""Functions of other people's packages, examples/third_party: without those packages, and with them where they are."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache

import pytest
import torch
from support import ROOT

from autofn import Spec, origins, registry

FOLDER = ROOT / "examples" / "third_party"
PINNED = [line for line in (FOLDER / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
README = (FOLDER / "README.md").read_text()
ROW = re.compile(r"^\| ((?:`[a-z-]+`(?:, )?)+) \| `(\w+)` \| ([\w-]+ [\d.]+) \|", re.MULTILINE)


@cache
def module(name):
    """A file of the folder."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)


def declared():
    for path in sorted(FOLDER.glob("spec_*.py")):
        for found in vars(module(path.stem)).values():
            if isinstance(found, Spec):
                yield found


SPECS = {spec.name: spec for spec in declared()}
every_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())


def tiny(spec, dtype=torch.float64):
    return spec.make_inputs(**spec.workloads["tiny"], dtype=dtype, device="cpu", seed=3)


def written(spec):
    return [name for name in spec.variants if name != "native"]


@pytest.fixture
def known(monkeypatch):
    """The folder as the spec files of the run."""
    monkeypatch.setenv(origins.ENVIRONMENT, str(FOLDER))
    forget()
    yield
    monkeypatch.undo()
    forget()


def forget():
    origins.forget()
    for cached in (registry.spec, registry.variants):
        cached.cache_clear()


# The Specs, which need none of the packages


def test_there_are_at_least_ten_functions_of_at_least_five_packages():
    assert len(SPECS) >= 10
    assert len({spec.requires for spec in SPECS.values()}) >= 5


@every_spec
def test_what_a_spec_requires_is_what_is_installed(spec):
    assert spec.requires
    assert set(spec.requires) <= set(PINNED)


@every_spec
def test_the_gradient_of_a_reference_agrees_with_finite_differences(spec):
    inputs = tiny(spec)
    smooth = spec.surrogate or spec.reference
    assert torch.autograd.gradcheck(smooth, inputs)
    if spec.surrogate:
        leaves = [t for t in inputs if isinstance(t, torch.Tensor) and t.requires_grad]
        weights = torch.randn(spec.reference(*inputs).shape, dtype=torch.float64)
        got, want = (torch.autograd.grad(apply(*inputs), leaves, weights) for apply in (spec.reference, spec.surrogate))
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("name", ["entmax_sparsemax", "entmax_entmax15", "entmax_bisect"])
def test_a_reference_onto_the_simplex_maximises_what_defines_it(name):
    """Its rows are distributions, and no other one has a larger `p @ x + entropy(p)`."""
    x, *rest = tiny(SPECS[name])
    alpha = {"entmax_sparsemax": 2.0, "entmax_entmax15": 1.5}.get(name) or rest[0]

    def objective(p):
        return (p * x).sum(-1) + ((p - p**alpha).sum(-1, keepdim=True) / (alpha * (alpha - 1))).squeeze(-1)

    p = SPECS[name].reference(x, *rest)
    assert (p >= 0).all()
    torch.testing.assert_close(p.sum(-1), torch.ones(len(p), dtype=p.dtype))
    drawn = torch.randn(100, *x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(0))
    others = torch.softmax(3 * drawn, -1)
    for near in (0.01, 0.5):
        assert (objective(p) >= objective(p + near * (others - p))).all()


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("timm_swish", torch.nn.functional.silu),
        ("timm_mish", torch.nn.functional.mish),
        ("timm_hard_swish", torch.nn.functional.hardswish),
        ("brevitas_abs", torch.abs),
        ("brevitas_round_ste", torch.round),
        ("brevitas_clamp_in_place", torch.clamp),
        ("snntorch_fast_sigmoid", lambda u, slope: torch.heaviside(u, torch.zeros_like(u))),
        ("snntorch_atan", lambda u, alpha: torch.heaviside(u, torch.zeros_like(u))),
        ("spikingjelly_atan", lambda u, alpha: torch.heaviside(u, torch.ones_like(u))),
        ("spikingjelly_piecewise_exp", lambda u, alpha: torch.heaviside(u, torch.ones_like(u))),
        ("revgrad", lambda x, alpha: x),
    ],
)
def test_the_value_of_a_reference_is_that_of_pytorchs_own(name, wanted):
    inputs = tiny(SPECS[name])
    with torch.no_grad():
        inputs[0][0] = 0
        torch.testing.assert_close(SPECS[name].reference(*inputs), wanted(*inputs))


def test_the_references_of_scatter_are_those_of_a_loop():
    src, index, dim, out, groups = tiny(SPECS["scatter_mul"])
    products = SPECS["scatter_mul"].reference(src, index, dim, out, groups)
    largest = SPECS["scatter_max"].reference(src, index, dim, out, groups)
    assert 0 < len(index.unique()) < groups, "a group has no row"
    for group in range(groups):
        rows = src[index == group]
        torch.testing.assert_close(products[group], rows.prod(0))
        if len(rows):
            torch.testing.assert_close(largest[group], rows.amax(0))
        else:
            assert not largest[group].any()


def test_the_gradient_at_0_is_what_brevitas_is_for():
    x = torch.zeros(1, requires_grad=True)
    SPECS["brevitas_abs"].reference(x).backward()
    assert x.grad.item() == 1


@every_spec
def test_a_variant_whose_package_is_missing_says_what_to_install_and_the_others_go_on(spec, known):
    (package,) = spec.requires
    name, _, version = package.partition("==")
    for variant in written(spec):
        reason = registry.unavailable(spec.name, variant)
        there = registry._version(name)
        if there is None:
            assert reason == f"needs {package}, which is not installed: pip install {package}"
        elif there == version and variant != "triton":
            assert reason is None
    assert registry.unavailable(spec.name, "eager") is None


# The command


@cache
def make():
    found = shutil.which("make")
    if not found:
        pytest.skip("there is no make")
    return found


def run_make(tmp_path, pip, autofn):
    """`make` in the folder with an environment of stubs: what was called, in order, and what it said."""
    stubs = tmp_path / "venv" / "bin"
    stubs.mkdir(parents=True)
    for name, body in {"python": "exit 0", "pip": pip, "autofn": autofn}.items():
        (stubs / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/called\n{body}\n')
        (stubs / name).chmod(0o755)
    done = subprocess.run(
        [make(), "-C", str(FOLDER), f"ROOT={tmp_path}"], capture_output=True, text=True, check=False
    )  # fmt: skip
    return done, (tmp_path / "called").read_text().splitlines()


# `--json FILE` is what the next step waits for.
WRITES = 'while [ $# -gt 0 ]; do [ "$1" = --json ] && touch "$2"; shift; done; exit {}'
FAILS_ONE = 'case "$*" in *torch-scatter*) echo "no compiler"; exit 1;; esac'


@pytest.mark.parametrize(("status", "goes_on"), [(0, True), (1, True), (2, False), (3, False)])
def test_a_finding_does_not_end_the_command_and_misuse_does(tmp_path, status, goes_on):
    body = f'kind=$1; test "$kind" = report && exit 0; {WRITES.format(status)}'
    done, called = run_make(tmp_path, FAILS_ONE, body)
    assert (done.returncode == 0) == goes_on, done.stderr
    assert [line.split()[-1] for line in called if "--no-deps" in line] == PINNED
    assert "torch-scatter==2.1.2 does not install here, see " in done.stdout
    assert "no compiler" in (tmp_path / "install-torch-scatter.log").read_text()
    steps = [line.split()[1] for line in called if line.startswith("autofn ")]
    assert steps == (["check", "bench", "report"] if goes_on else ["check"])


def test_what_was_done_is_not_done_again(tmp_path):
    body = f"test $1 = report && exit 0; {WRITES.format(1)}"
    run_make(tmp_path, "exit 0", body)
    (tmp_path / "called").unlink()
    again = subprocess.run([make(), "-C", str(FOLDER), f"ROOT={tmp_path}"], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    called = (tmp_path / "called").read_text().splitlines()
    assert [line.split()[0] for line in called] == ["python", "autofn"], (
        "the findings are verified, the page is written"
    )


def test_the_command_of_the_top_is_this_one():
    said = subprocess.run([make(), "-Bn", "third-party"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "-C examples/third_party" in said
    assert "autofn check --spec" in said


# The findings


def test_the_page_tells_the_findings_that_are_verified():
    verified = {(each.rules, each.function, each.package) for each in module("findings").FINDINGS}
    told = {
        (tuple(re.findall("[a-z-]+", rules)), function, package.replace(" ", "=="))
        for rules, function, package in ROW.findall(README)
    }
    assert told == verified
    assert {package for _, _, package in verified} <= set(PINNED)
    assert {function for _, function, _ in verified} <= set(SPECS)


@pytest.mark.slow
def test_each_finding_is_seen_in_plain_pytorch_where_its_package_is():
    done = subprocess.run(
        [sys.executable, str(FOLDER / "findings.py")],
        env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len([line for line in lines if line.startswith(("seen", "not seen", "n/a"))]) == len(
        module("findings").FINDINGS
    )
    assert "not seen" not in done.stdout
    assert done.returncode == (3 if all(line.startswith("n/a") for line in lines) else 0), done.stderr


@pytest.mark.slow
@every_spec
def test_check_finds_what_the_page_tells_and_nothing_else(spec, tmp_path):
    (package,) = spec.requires
    if registry._version(package.partition("==")[0]) is None:
        pytest.skip(f"needs {package}, which is not installed")
    chosen = [word for variant in written(spec) for word in ("--variant", variant)]
    # A process of its own: Triton asks for its interpreter once, when it is imported.
    done = subprocess.run(
        [sys.executable, "-m", "autofn", "check", spec.name, "--spec", str(FOLDER), *chosen, "--json", "found.json"],
        cwd=tmp_path, env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    records = json.loads((tmp_path / "found.json").read_text())
    found = {
        each["rule"]: each["severity"] for record in records for each in record.get("detail", {}).get("findings", ())
    }
    told = {rule for each in module("findings").FINDINGS if each.function == spec.name for rule in each.rules}
    assert {rule for rule, severity in found.items() if severity != "info"} == told
