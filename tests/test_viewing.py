"""What `autofn trace --view` needs, and what it says where that is missing. What it shows: tests/tracing."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time

import pytest
from typer import Typer
from typer.testing import CliRunner

from autofn import viewing
from autofn.cli.trace import trace_command
from autofn.viewing import polyfill

app = Typer()
app.command()(trace_command)


@pytest.fixture
def run(tmp_path):
    """A folder with a run in it."""
    (tmp_path / "f" / "v").mkdir(parents=True)
    (tmp_path / "f" / "v" / "v.1.pt.trace.json").write_text('{"traceEvents": []}')
    return tmp_path


def test_without_the_extra_one_line_says_what_to_install(run, monkeypatch):
    monkeypatch.setattr(viewing.importlib.util, "find_spec", lambda name: None)
    found = CliRunner().invoke(app, ["--view", "--out", str(run)])
    assert found.exit_code == 3
    assert found.stderr == "autofn: view: TensorBoard is not installed; run: pip install 'autofn[tensorboard]'\n"


def test_where_there_are_no_traces_the_way_to_some_is_said(tmp_path):
    pytest.importorskip("torch_tb_profiler")
    with pytest.raises(LookupError, match=r"there are no traces in .*; autofn trace records them"):
        viewing.view(tmp_path)


def test_viewing_records_nothing_and_becomes_the_server(run, monkeypatch):
    pytest.importorskip("torch_tb_profiler")
    became = []
    monkeypatch.setattr(os, "execv", lambda *words: became.append(words))
    found = CliRunner().invoke(app, ["--view", "--offline", "--port", "7", "--out", str(run)])
    assert found.exit_code == 0
    words = [sys.executable, "-m", "autofn.viewing.server", str(run), "7", "offline"]
    assert became == [(sys.executable, words)]


@pytest.mark.parametrize("words", [["--port", "7"], ["--offline"]], ids=str)
def test_how_to_view_without_viewing_is_refused_and_nothing_is_recorded(words, tmp_path):
    found = CliRunner().invoke(app, [*words, "--out", str(tmp_path)])
    assert isinstance(found.exception, ValueError)
    assert not list(tmp_path.iterdir())


def test_a_port_that_is_taken_is_said(run):
    pytest.importorskip("torch_tb_profiler")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "autofn.viewing.server", str(run), port, ""]
        found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert found.returncode == 2
    assert port in found.stderr
    assert "Traceback" not in found.stderr


def test_an_interrupt_ends_it_and_all_that_it_started(run, tmp_path):
    pytest.importorskip("torch_tb_profiler")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "autofn.viewing.server", str(run), "0", ""],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )  # fmt: skip
    assert any(line.startswith("TensorBoard: http://127.0.0.1:") for line in process.stdout)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "KeyboardInterrupt" not in out
    assert list(scratch.iterdir()) == []
    assert gone(process.pid), "it left processes behind"


def gone(group, seconds=10):
    """Whether no process of the group is left, or soon is."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and no npm."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(polyfill.shutil, "which", lambda name: None)
    return tmp_path


def test_without_npm_the_way_to_the_polyfill_is_said(cache):
    with pytest.raises(polyfill.NoPolyfillError, match=r"npm is not on the PATH\. .*`npm pack webcomponents"):
        polyfill.fetched()


def test_what_is_kept_is_not_fetched_again(cache):
    polyfill.kept().parent.mkdir(parents=True)
    polyfill.kept().write_text("kept")
    assert polyfill.fetched().read_text() == "kept"


def test_another_file_than_the_published_one_is_refused(cache, monkeypatch):
    def pack(command, cwd, **_):
        with tarfile.open(f"{cwd}/made.tgz", "w:gz") as archive:
            member = tarfile.TarInfo(polyfill.MEMBER)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"evil"))

    monkeypatch.setattr(polyfill.shutil, "which", lambda name: "npm")
    monkeypatch.setattr(polyfill.subprocess, "run", pack)
    with pytest.raises(polyfill.NoPolyfillError, match="is not the published file"):
        polyfill.fetched()
    assert not polyfill.kept().exists()


def test_what_npm_says_is_told(cache, monkeypatch):
    def pack(command, **_):
        raise subprocess.CalledProcessError(1, command, stderr=b"npm error code ENOTFOUND\n")

    monkeypatch.setattr(polyfill.shutil, "which", lambda name: "npm")
    monkeypatch.setattr(polyfill.subprocess, "run", pack)
    with pytest.raises(polyfill.NoPolyfillError, match="npm says: npm error code ENOTFOUND"):
        polyfill.fetched()
