"""What can be wrong around compare, regressions, dev, fleet and asv: a sentence or a row, and nothing measured is lost.

A table: in each state of a repository and its machine, each command with the exit status and words that it owes.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys

import pytest
from support import commit, environment, git, scratch_repository, write_function

from autofn import cli
from autofn.measure.rows import Group, Rows
from autofn.records import ASV_RESULTS, RUNS, Journal

OPERATOR = "from ... import extension\n\napply = extension.operator('bee')\n"
COMMANDS = {
    "compare": ["compare", "HEAD~1", "HEAD", "ant"],
    "regressions": ["regressions", "--since", "HEAD~1"],
    "dev": ["dev", "ant", "--base", "HEAD~1"],
    "fleet": ["fleet", "HEAD~1", "--profile", "glance", "--function", "ant"],
}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Two commits, of which the second saves more, as the results of both say."""
    folder = scratch_repository(tmp_path_factory.mktemp("bad") / "repository", "ant")
    (folder / "file").write_text("")
    commit(folder, "second")
    rows = Rows(Group("ant", "small", "float32", "cpu"), ("forward",))
    said = {"source": "asv", "run": "r", "version": "1", "machine": "here", "date": "2026-01-01T00:00:00+00:00"}
    for number, name in enumerate(git(folder, "rev-list", "--reverse", "HEAD").split()):
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
        value = 64.0 * (1 + number)
        Journal(folder / RUNS / "bench-1.jsonl").append(
            [rows.record("cpp", "forward", "saved_bytes", "bytes", value=value, commit=name, **said)]
        )
    return folder


@pytest.fixture
def repository(original, tmp_path):
    return shutil.copytree(original, tmp_path / "repository", symlinks=True)


def run(folder, *words, **variables):
    told = environment(folder, **{"AUTOFN_NO_EXTENSION": "1", "HOME": str(folder), **variables})
    command = [sys.executable, "-m", "autofn", *map(str, words)]
    return subprocess.run(command, cwd=folder, env=told, capture_output=True, text=True, timeout=120)


def measured(folder):
    return {path: path.read_bytes() for path in folder.rglob("*.json*") if path.parts[-3:-1] == RUNS.parts}


def assert_told(done, status, words):
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == status, said
    assert words in said
    assert "Traceback" not in said
    assert len(done.stderr.strip().splitlines()) <= 3, "a sentence, not a lecture"


# By state and command, the exit status and words of what is said.


@pytest.mark.parametrize("command", COMMANDS)
def test_no_such_revision(repository, command):
    words = [{"HEAD~1": "nowhere"}.get(word, word) for word in COMMANDS[command]]
    before = measured(repository)
    assert_told(run(repository, *words), 2, "there is no revision 'nowhere' here; git log shows what there is")
    assert measured(repository) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_shallow_clone(repository, command, tmp_path):
    git(tmp_path, "clone", "--quiet", "--depth=1", repository.as_uri(), "shallow")
    words = COMMANDS[command]
    assert_told(run(tmp_path / "shallow", *words), 2, "no revision 'HEAD~1' here; this clone is shallow, git fetch")


def test_regressions_in_a_shallow_clone_say_where_the_other_commits_are(repository, tmp_path):
    git(tmp_path, "clone", "--quiet", "--depth=1", repository.as_uri(), "shallow")
    shutil.copytree(repository / ".autofn", tmp_path / "shallow" / ".autofn")
    words = "there are 1, and of 1 that git does not know here; this clone is shallow, git fetch --unshallow"
    assert_told(run(tmp_path / "shallow", "regressions"), 3, words)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_git(repository, command):
    done = run(repository, *COMMANDS[command], PATH=str(repository / "nothing"))
    assert_told(done, 2, "git is not on the PATH; install it")


@pytest.mark.parametrize("command", COMMANDS)
def test_no_repository(repository, command):
    shutil.rmtree(repository / ".git")
    done = run(repository, *COMMANDS[command], GIT_CEILING_DIRECTORIES=str(repository.parent))
    assert_told(done, 2, "is not in a git repository; change into one")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_repository_that_git_does_not_trust_or_cannot_read(repository, command):
    (repository / ".git" / "config").write_text("[core\n")
    assert_told(run(repository, *COMMANDS[command]), 2, "bad config line 1")


def test_a_repository_without_a_commit(repository):
    shutil.rmtree(repository / ".git")
    git(repository, "init", "--quiet")
    assert_told(run(repository, "compare", "HEAD", "."), 2, "there is no revision 'HEAD' here")
    assert_told(run(repository, "fleet"), 2, "there is no revision 'HEAD' here")


def test_a_detached_head_and_a_dirty_tree_are_nothing_wrong_and_no_compiler_is_a_row(repository):
    write_function(repository / "autofn" / "functions", "bee", cpp=OPERATOR)
    commit(repository, "a C++ variant")
    git(repository, "checkout", "--quiet", "--detach", "HEAD")
    (repository / "file").write_text("changed")
    words = ["compare", "HEAD", ".", "bee", "-w", "tiny", "--phase", "forward", "--budget", "1", "-v", "cpp"]
    done = run(repository, *words, AUTOFN_NO_EXTENSION="", CXX="no-such-compiler")
    assert done.returncode == 3, done.stderr
    said = " ".join(done.stdout.split())
    assert "no C++ compiler 'no-such-compiler' was found" in said
    assert "the working tree on" in said
    assert "Traceback" not in done.stderr
    assert_told(run(repository, "regressions"), 1, "saved_bytes")


def test_a_damaged_result_file_is_named_and_the_others_count(repository):
    damaged = repository / ASV_RESULTS / "here" / "0123abcd-e.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{")
    (repository / RUNS / "bench-2.jsonl").write_text('{"function": "f"')
    done = run(repository, "regressions")
    assert done.returncode == 1
    for name in ("0123abcd-e.json: skipped", "bench-2.jsonl: skipped"):
        assert name in done.stderr
    assert "saved_bytes" in done.stdout
    assert damaged.read_text() == "{"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_of_another_user_is_named_with_its_owner(repository):
    (repository / ".autofn").chmod(0o555)
    assert_told(run(repository, *COMMANDS["fleet"]), 2, "Permission denied")


def refuse(error):
    def command():
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 3, "No space left on device; what was measured is kept"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "/x"), 3, "/x: Disk quota exceeded; what was measured is kept"),
        (PermissionError(errno.EACCES, "Permission denied", "/"), 2, "'/'; it belongs to user 0, this is user"),
        (PermissionError(errno.EACCES, "Permission denied", "/nowhere"), 2, "Permission denied: '/nowhere'"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "/tmp"), 2, "Is a directory: '/tmp'"),
    ],
    ids=str,
)
def test_what_the_system_refuses_is_a_sentence(monkeypatch, capsys, error, status, words):
    monkeypatch.setattr(cli, "app", refuse(error))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == status
    told = capsys.readouterr().err
    assert words in told
    assert "Traceback" not in told


@pytest.fixture
def small_disk(tmp_path):
    """A disk with so little room that results do not fit."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can make a small disk, where the system lets it")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_leaves_what_was_measured_as_it_was(repository, small_disk):
    runs = small_disk / "runs"
    shutil.copytree(repository / RUNS, runs)
    shutil.rmtree(repository / RUNS)
    (repository / RUNS).symlink_to(runs)
    before = (runs / "bench-1.jsonl").read_bytes()
    (small_disk / "filler").write_bytes(b"x" * (64 * 1024 - 12 * 1024))
    words = ["bench", "ant", "--quick", "--budget", "0.05"]
    assert_told(run(repository, *words), 3, "No space left on device; what was measured is kept")
    assert (runs / "bench-1.jsonl").read_bytes() == before
    (small_disk / "filler").unlink()
    done = run(repository, *words)
    assert done.returncode == 0, done.stderr
    assert (runs / "bench-1.jsonl").read_bytes() == before


# asv


def asv(folder, *words, **variables):
    told = {**environment(folder, HOME=str(folder)), **variables}
    command = [sys.executable, "-m", "asv", *words]
    return subprocess.run(command, cwd=folder, env=told, capture_output=True, text=True, timeout=120)


@pytest.fixture
def with_machine(repository):
    assert asv(repository, "machine", "--yes").returncode == 0
    return repository


def test_asv_with_a_profile_or_a_torch_that_there_is_not_says_so(with_machine):
    done = asv(with_machine, "run", "HEAD^!", AUTOFN_PROFILE="fast")
    assert done.returncode != 0
    assert "AUTOFN_PROFILE: must be one of glance, quick, standard, full, got 'fast'" in done.stdout + done.stderr
    done = asv(with_machine, "run", "HEAD^!", AUTOFN_TORCH="1.0")
    assert done.returncode != 0
    assert "torch 2.11.0 is left out; AUTOFN_TORCH=2.11.0 measures it" in done.stdout + done.stderr
    assert "No environments selected" in done.stdout + done.stderr
