"""What is wrong in somebody's own files is told with their line and the way out, and the others go on."""

from __future__ import annotations

import json

import pytest
from support import ROOT, python, write_function
from test_origins import declared

IMPORT_ERRORS = {
    "SPEC = Spec(\n": "SyntaxError: '(' was never closed (broken.py:1: `SPEC = Spec(`)",
    "import torch\nx = 1 / 0  # Spec(\n": "ZeroDivisionError: division by zero (broken.py:2: `x = 1 / 0  # Spec(`)",
    "import torch\ntorch.siluu  # Spec(\n": "(broken.py:2: `torch.siluu  # Spec(`)",
    "import nothing_here  # Spec(\n": "No module named 'nothing_here' (broken.py:1: `import nothing_here  # Spec(`)",
    declared("Bad"): "a name is lower case, digits and underscores, got 'Bad' (broken.py:",
    "Spec = 1  # Spec(\n": "broken.py: holds no Spec",
}


@pytest.fixture
def project(tmp_path):
    (tmp_path / "mine.py").write_text(declared())
    return tmp_path


def autofn(project, *words, status):
    done = python("-m", "autofn", *words, cwd=project, package=ROOT)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def test_files_that_cannot_be_read_are_told_with_their_lines_and_the_others_go_on(project):
    specs = ["--spec", "mine.py"]
    for number, text in enumerate(IMPORT_ERRORS):
        (project / f"broken{number}.py").write_text(text)
        specs += ["--spec", f"broken{number}.py"]
    out, err = autofn(project, "list", "--json", *specs, status=1)
    assert [each["function"] for each in json.loads(out)] == ["triple"]
    told = [line for line in err.splitlines() if line.startswith("autofn: ")]
    assert len(told) == len(IMPORT_ERRORS)
    for number, (line, words) in enumerate(zip(told, IMPORT_ERRORS.values(), strict=True)):
        assert words.replace("broken", f"broken{number}") in line


def test_a_file_alone_that_cannot_be_read_is_a_mistake(project):
    (project / "broken.py").write_text("1 / 0\n")
    out, err = autofn(project, "list", "--spec", "broken.py", status=2)
    assert out == ""
    assert "broken.py cannot be imported: ZeroDivisionError: division by zero (broken.py:1: `1 / 0`)" in err


def test_a_folder_that_cannot_be_read_is_told_and_the_others_go_on(project):
    write_function(project / "own", "ant")
    write_function(project / "own", "bee", declaration="Spec(\n")
    out, err = autofn(project, "list", "--json", "--spec", "own", status=1)
    assert [each["function"] for each in json.loads(out)] == ["ant"]
    assert "SyntaxError: '(' was never closed (own/bee/__init__.py:1: `Spec(`)" in err


FORWARD = "    def forward(ctx, x):\n        return 3 * x"
DEVICES = "make_inputs gives input 0 on cpu, input 1 on meta; make all of them on the `device` that it is given"
RAISED = "nothing' (raising.py:16: `return x.nothing()`)"
# What is changed in a right declaration, then what check and bench say.
CASES = {
    "devices": (
        {
            "return (torch.randn(n, generator=generator).to(device, dtype).requires_grad_(),)": (
                "x = torch.randn(n, generator=generator).to(device, dtype).requires_grad_()\n"
                "    return x, x.detach().to('meta')"
            ),
            "(x):": "(x, w):",
            "(ctx, x):": "(ctx, x, w):",
            "return 3 * grad_output": "return 3 * grad_output, None",
        },
        DEVICES,
        DEVICES,
    ),
    "outputs": (
        {FORWARD: f"{FORWARD}, 2 * x", "(ctx, grad_output)": "(ctx, grad_output, other)"},
        "it returns another number of outputs",
        "it returns 2 outputs where the reference returns 1",
    ),
    "raising": ({FORWARD: FORWARD.replace("3 * x", "x.nothing()")}, RAISED, RAISED),
}


def test_variants_that_cannot_be_measured_are_told_and_the_others_go_on(project):
    specs = ["--spec", "mine.py", "-v", "python"]
    for name, (changes, *_) in CASES.items():
        text = declared(name)
        for right, wrong in changes.items():
            assert right in text
            text = text.replace(right, wrong)
        (project / f"{name}.py").write_text(text)
        specs += ["--spec", f"{name}.py"]
    out, _ = autofn(project, "check", *specs, "--select", "value", "--select", "runs", status=1)
    said = " ".join(out.split())
    assert [name for name, (_, checked, _) in CASES.items() if checked not in said] == []
    assert "│ triple   │ python  │ 3" in out
    words = ("--quick", "--budget", "0.01", "-w", "tiny", "--phase", "backward")
    out, _ = autofn(project, "bench", *specs, *words, status=1)
    said = " ".join(out.split())
    assert [name for name, (_, _, benched) in CASES.items() if benched not in said] == []
    assert "triple tiny float32" in out
