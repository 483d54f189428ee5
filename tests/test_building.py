"""Sources of somebody's own: built once for their content, by one process; a fault is told in the compiler's words."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from autofn import building

SOURCE = "int one() { return 1; }\n"


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOFN_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "kernel.cpp"
    path.write_text(SOURCE)
    return path


def digest(*files, flags=()):
    return building._digest(files, flags)


def test_all_that_goes_into_a_build_is_in_its_name(kernel, monkeypatch):
    header = kernel.with_name("inputs.h")
    header.write_text("#define ONE 1\n")
    found = [digest(kernel)]
    header.write_text("#define ONE 2\n")
    found.append(digest(kernel))
    kernel.write_text(SOURCE + "// changed\n")
    found.append(digest(kernel))
    found.append(digest(kernel, flags=["-O2"]))
    monkeypatch.setenv("CXX", "clang++")
    found.append(digest(kernel))
    assert len(set(found)) == len(found)
    assert digest(kernel) == found[-1]


def test_one_builds_and_the_others_wait_for_it(kernel, monkeypatch, capsys):
    built = []

    def compile_slowly(files, flags, folder, log):
        built.append(folder)
        time.sleep(0.3)
        (folder / f"{building.LIBRARY}.so").write_text("whole")

    monkeypatch.setattr(building, "_compile", compile_slowly)
    folder, found = building.cache() / "digest", []
    threads = [
        threading.Thread(target=lambda: found.append(building._built([kernel], [], folder).read_text())) for _ in "abc"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["whole"] * 3
    assert len(built) == 1
    assert "compiling kernel.cpp, once for its content" in capsys.readouterr().err
    assert {path.name for path in building.cache().iterdir()} == {"digest", "digest.lock"}


def test_a_killed_build_leaves_nothing_locked(kernel):
    lock = building.cache() / "digest.lock"
    code = (
        "import os, sys, pathlib\nfrom autofn import building\n"
        "with building._alone(pathlib.Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(lock)]).returncode == -9
    with building._alone(lock):
        pass


def test_a_source_that_does_not_compile_is_an_error_with_the_compilers_words(kernel):
    kernel.write_text('#error "planted"\n')
    with pytest.raises(building.CompilingError, match=r"kernel.cpp does not compile; .*\.log has all of it:") as told:
        building.load(kernel)
    assert "kernel.cpp:1:2: error: #error" in str(told.value)
    assert not [path for path in building.cache().iterdir() if path.is_dir()], "what failed is not kept as built"


def test_without_a_compiler_the_variant_is_not_available(kernel, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(NotImplementedError, match="needs a C\\+\\+ compiler, and there is no 'no-such-compiler'"):
        building.load(kernel)
    monkeypatch.setenv("CXX", "c++")
    monkeypatch.setattr(building, "_path", lambda: "")
    with pytest.raises(NotImplementedError, match="pip install ninja"):
        building.load(kernel)


def test_a_file_that_is_not_there_is_an_error(kernel):
    with pytest.raises(LookupError, match=r"there is no file .*/other\.cpp"):
        building.load(kernel.with_name("other.cpp"))
