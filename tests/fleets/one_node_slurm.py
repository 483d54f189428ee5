"""A Slurm of one node on this machine, for a test: its daemons are started, and ended by the ids in their pid files."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

DAEMONS = ("slurmctld", "slurmd", "munged")
START_S = 30.0

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
KillWait=2
SchedulerParameters=sched_interval=2,batch_sched_delay=1
SelectType=select/cons_tres
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory=1000 Feature=big,small
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Why no Slurm can be started here, None where one can."""
    if os.geteuid():
        return "a Slurm of its own can be started by root alone"
    lacking = [name for name in DAEMONS if not _program(name)]
    if lacking:
        return f"{', '.join(lacking)} not installed: apt-get install slurmctld slurmd slurm-client munge"
    return None


@contextmanager
def one_node(folder: Path):
    """The environment in which sbatch and the like reach it. Fails where it does not come up."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    # munged refuses a socket or a log where others could write.
    folder.chmod(0o755)
    host = socket.gethostname().partition(".")[0]
    ports = {"port": _free_port(), "node_port": _free_port()}
    file = folder / "slurm.conf"
    file.write_text(CONFIGURATION.format(host=host, cores=os.cpu_count(), folder=folder, **ports))
    environment = {**os.environ, "SLURM_CONF": str(file)}
    _start_munge(folder)
    try:
        for name in ("slurmctld", "slurmd"):
            subprocess.run([_program(name), "-f", str(file)], env=environment, check=True, capture_output=True)
        _wait_until_idle(environment, folder)
        yield {"SLURM_CONF": str(file)}
    finally:
        for name in ("slurmd", "slurmctld", "munged"):
            _end(folder / f"{name}.pid")


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _start_munge(folder: Path) -> None:
    """With a key, a socket and a log of its own; the system's is left alone."""
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    names = {"key-file": "munge.key", "pid-file": "munged.pid", "log-file": "munged.log", "seed-file": "munged.seed"}
    options = [f"--{option}={folder / name}" for option, name in names.items()]
    command = [_program("munged"), "--force", f"--socket={folder / 'munge.socket'}", *options]
    subprocess.run(command, check=True, capture_output=True)


def _wait_until_idle(environment: dict[str, str], folder: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        done = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True)
        if done.stdout.strip() == "idle":
            return
        time.sleep(0.2)
    raise AssertionError(f"no idle node within {START_S} s: {done.stdout}{done.stderr}{_logs(folder)}")


def _logs(folder: Path) -> str:
    return "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(folder.glob("*.log")))


def _end(file: Path) -> None:
    if not file.exists():
        return
    pid = int(file.read_text())
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        for _ in range(100):
            os.kill(pid, 0)
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("", 0))
        return found.getsockname()[1]
