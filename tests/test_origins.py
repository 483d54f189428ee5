"""Functions of somebody's own: a file, a folder, a module, a project's setting, an installed package."""

from __future__ import annotations

import importlib
import json
import os
import sys
from importlib import metadata
from pathlib import Path

import pandas
import pytest
import torch
from support import PACKAGE, python, write_function

from autofn import origins, registry
from autofn.spec import Spec

OWN = '''"""Three times x, `y = 3 * x`."""

import torch

from autofn import Spec, Tolerance


def triple(x):
    """Three times x."""
    return 3 * x


class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 3 * x

    @staticmethod
    def backward(ctx, grad_output):
        return 3 * grad_output


def make_inputs(n, *, dtype, device, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(n, generator=generator).to(device, dtype).requires_grad_(),)


SIZES = {"tiny": {"n": 5}, "small": {"n": 50}, "large": {"n": 500}}
TOLERANCES = {torch.float32: Tolerance(1e-6, 0, "one product")}
SPEC = Spec("NAME", triple, make_inputs, SIZES, TOLERANCES, "1", variants=VARIANTS)
'''


def declared(name="triple", variants='{"python": Triple}', requires="()"):
    return OWN.replace("NAME", name).replace("variants=VARIANTS", f"variants={variants}, requires={requires}")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working folder; what the registry knows of it is forgotten in the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(origins.ENVIRONMENT, raising=False)
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    os.environ.pop(origins.ENVIRONMENT, None)
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
    forget()


def forget():
    origins.forget()
    for cached in (registry.spec, registry.variants):
        cached.cache_clear()


def ask(*texts):
    origins.ask([str(text) for text in texts])
    forget()


def test_a_file_brings_its_specs_and_their_variants(project):
    (project / "mine.py").write_text(declared(variants='{"python": Triple, "native": torch.nn.Identity()}'))
    ask("mine.py")
    assert registry.names() == ("triple",)
    assert [found.name for found in registry.variants("triple")] == ["eager", "compile", "native", "python"]
    assert registry.load("triple", "python")(torch.ones(2)).tolist() == [3, 3]
    assert registry.summary("triple") == "Three times x, `y = 3 * x`."
    assert registry.folder("triple") is None


def test_it_is_found_from_another_folder_too_for_its_path_is_made_absolute(project, monkeypatch, tmp_path_factory):
    (project / "mine.py").write_text(declared())
    ask("mine.py")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert registry.names() == ("triple",)


def test_the_built_in_ones_can_still_be_named(project):
    (project / "mine.py").write_text(declared())
    ask("mine.py")
    assert "exp" in registry.every_name()
    assert registry.spec("exp").name == "exp"
    import autofn

    assert autofn.triple(torch.ones(1), variant="python").item() == 3


def test_a_folder_brings_the_functions_that_are_its_subfolders(project):
    write_function(project / "own_functions", "quadrat")
    ask(project / "own_functions")
    assert registry.names() == ("quadrat",)
    assert [found.name for found in registry.variants("quadrat")] == ["eager", "python"]
    assert registry.load("quadrat", "python")(torch.ones(2) * 3).tolist() == [9, 9]
    assert registry.folder("quadrat") == project / "own_functions" / "quadrat"


def test_a_folder_brings_the_files_in_it_that_declare_some(project):
    folder = project / "specs"
    folder.mkdir()
    (folder / "one.py").write_text(declared("one"))
    (folder / "two.py").write_text(declared("two"))
    (folder / "other.py").write_text("raise RuntimeError('not a declaration, so not imported')")
    ask(folder)
    assert registry.names() == ("one", "two")


def test_a_module_or_a_package_of_folders_is_named_as_it_is_imported(project):
    (project / "pack").mkdir()
    (project / "pack" / "__init__.py").write_text("")
    (project / "pack" / "specs.py").write_text(declared())
    write_function(project / "pack" / "functions", "quadrat")
    (project / "pack" / "functions" / "__init__.py").write_text("")
    ask("pack.specs", "pack.functions")
    assert registry.names() == ("quadrat", "triple")


def test_a_variant_may_be_a_word_that_is_imported_when_it_is_needed(project):
    (project / "late.py").write_text("import nothing_of_this_name\n")
    (project / "kernels.py").write_text("def apply(x):\n    return 3 * x\n")
    (project / "mine.py").write_text(
        declared(variants='{"cpp": "kernels:apply", "triton": "late:apply", "python_odd": 5}')
    )
    ask("mine.py")
    assert registry.load("triple", "cpp")(torch.ones(1)).item() == 3
    assert registry.unavailable("triple", "triton") == "needs 'nothing_of_this_name', which is not installed"
    assert "a variant must be a callable" in registry.unavailable("triple", "python_odd")


def test_a_variant_whose_package_is_missing_or_another_version_says_what_to_install(project):
    variants = '{"python": "pandas:concat", "native": "pandas:concat"}'
    for name, requires in (
        ("one", '("pandas", "no-such-package==1.3")'),
        ("two", '("pandas==0.1",)'),
        ("three", f'("pandas=={pandas.__version__}",)'),
    ):
        (project / f"{name}.py").write_text(declared(name, variants=variants, requires=requires))
    ask("one.py", "two.py", "three.py")
    assert registry.unavailable("one", "python") == (
        "needs no-such-package==1.3, which is not installed: pip install no-such-package==1.3"
    )
    assert registry.unavailable("two", "python") == (
        f"needs pandas==0.1, and {pandas.__version__} is installed: pip install pandas==0.1, or say "
        f"pandas=={pandas.__version__} in the Spec's `requires`"
    )
    assert registry.unavailable("three", "python") is None
    for variant in ("eager", "native"):
        assert registry.unavailable("one", variant) is None, "PyTorch's own operator needs no other package"


def test_a_package_whose_spec_files_cannot_be_read_has_no_attribute_instead_of_another_error(project):
    """Pickle, by which Inductor makes its keys, asks every module for a name, and stands AttributeError alone."""
    import autofn

    (project / "mine.py").write_text("import nothing_of_this_name\nSpec()\n")
    ask("mine.py")
    assert not hasattr(autofn, "quadrat")
    with pytest.raises(AttributeError, match=r"has no attribute 'quadrat': .*mine.py cannot be imported: "):
        _ = autofn.quadrat


def test_a_project_names_its_own_in_pyproject_toml(project):
    (project / "mine.py").write_text(declared())
    (project / "pyproject.toml").write_text('[tool.autofn]\nspecs = ["mine.py"]\n')
    forget()
    assert registry.names() == ("triple",)
    (project / "given.py").write_text(declared("given_one"))
    ask("given.py")
    assert registry.names() == ("given_one",), "what is given for one run comes before it"


def test_an_installed_package_brings_its_own_beside_the_built_in_ones(project, monkeypatch):
    (project / "brought.py").write_text(declared("brought_one"))
    point = metadata.EntryPoint("mine", "brought", origins.GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point] if group == origins.GROUP else [])
    forget()
    assert set(registry.names()) == {"brought_one", *registry._built_in().names()}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nowhere.py", "there is no file .*nowhere.py"),
        ("no_such_module", "there is no module 'no_such_module'"),
        ("empty.py", "empty.py: holds no Spec"),
        ("broken.py", "cannot be imported: ZeroDivisionError"),
        ("nothing", "nothing: holds no Spec, neither in a subfolder's __init__.py nor in a .py file"),
        ("bad-name", "bad-name: a folder of Functions is imported, so its name must be a Python name"),
    ],
)
def test_what_brings_nothing_is_an_error_that_says_why(project, text, words):
    (project / "empty.py").write_text("")
    (project / "broken.py").write_text("1 / 0")
    (project / "nothing").mkdir()
    write_function(project / "bad-name", "quadrat")
    ask(text)
    with pytest.raises((LookupError, ValueError), match=words):
        registry.names()


@pytest.mark.parametrize("said", ['"mine.py"', "[1]", '{file = "mine.py"}'])
def test_a_setting_that_is_no_list_of_names_is_an_error(project, said):
    (project / "pyproject.toml").write_text(f"[tool.autofn]\nspecs = {said}\n")
    forget()
    with pytest.raises(ValueError, match="must be a list of files, folders or modules, got"):
        registry.names()


def test_two_functions_of_one_name_are_an_error_that_names_both(project):
    (project / "mine.py").write_text(declared("exp"))
    ask("mine.py")
    with pytest.raises(ValueError, match=r"two Functions of the name 'exp', in .*functions.* and in .*mine"):
        registry.spec("exp")


def test_a_variant_of_no_kind_is_refused():
    from support import make_spec

    with pytest.raises(ValueError, match=r"a variant is called native, python, fused, cpp or triton, .* got 'quick'"):
        make_spec(variants={"quick": None})
    assert isinstance(make_spec(variants={"python_quick": None}), Spec)


def autofn(project, *words, status=0):
    # Not the file's own folder: what the processes of a run import must be found from anywhere.
    done = python("-m", "autofn", *words, cwd=project, package=PACKAGE.parent)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_commands_take_a_file_of_somebodys_own(project):
    (project / "mine.py").write_text(declared())
    (found,) = json.loads(autofn(project, "list", "--json", "--spec", "mine.py"))
    assert list(found["variants"]) == ["eager", "compile", "python"]
    file = project / "found.json"
    autofn(project, "check", "--spec", "mine.py", "-v", "python", "--json", file)
    statuses = [record["status"] for record in json.loads(file.read_text()) if "status" in record]
    assert set(statuses) <= {"ok", "n/a"}
    words = ("--spec", "mine.py", "-w", "tiny", "-v", "python", "--budget", "0.01", "--phase", "forward")
    assert "triple tiny float32" in autofn(project, "bench", *words)
    autofn(project, "trace", "--spec", "mine.py", "-v", "python", "-w", "tiny", "--steps", "1")
    assert list((project / "traces" / "triple" / "python").glob("*.pt.trace.json.gz"))
    autofn(project, "report", "--spec", "mine.py")
    page = (project / "reports" / "html" / "comparison.html").read_text()
    assert "Three times x" in page
    assert "no file" in autofn(project, "check", "--spec", "nothing.py", status=2)


def test_the_environment_reaches_other_processes(project):
    (project / "mine.py").write_text(declared())
    origins.ask(["mine.py"])
    assert os.environ[origins.ENVIRONMENT] == str(Path(project / "mine.py"))
    importlib.invalidate_caches()
