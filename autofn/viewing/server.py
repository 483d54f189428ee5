"""The process: `python -m autofn.viewing.server FOLDER PORT OFFLINE`, PORT and OFFLINE may be empty."""

from __future__ import annotations

import atexit
import gc
import json
import logging
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import urllib.request
from typing import Any

HOST = "127.0.0.1"
PLUGIN = "data/plugin/pytorch_profiler"


def serve(folder: str, port: str, offline: str) -> int:
    """Starts TensorBoard, says its address and when all traces are loaded, and waits to be interrupted."""
    _end_quietly()
    # Read when the plugin is imported: a process a trace, of which spawn would start each as a new interpreter.
    if sys.platform == "linux" and "fork" in multiprocessing.get_all_start_methods():
        os.environ.setdefault("TORCH_PROFILER_START_METHOD", "fork")
    from tensorboard import program
    from tensorboard.plugins.core import core_plugin

    from .plugin import plugin

    # What a trace is made of has no cycles; looking for some takes a third of reading it, in every forked process.
    gc.disable()
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    board = program.TensorBoard([core_plugin.CorePluginLoader(), plugin(offline=bool(offline))])
    board.configure(logdir=folder, host=HOST, port=int(port) if port else None, load_fast="false", reload_interval=0)
    try:
        address = board.launch()
    except program.TensorBoardServerException as error:
        print(f"autofn: view: {error}", file=sys.stderr)
        return 2
    print(f"TensorBoard: {address}#pytorch_profiler", flush=True)
    print(f"{loaded(address)} runs are loaded; Ctrl-C ends", flush=True)
    gc.enable()
    threading.Event().wait()
    return 0


def _end_quietly() -> None:
    """On SIGINT and SIGTERM ends this process and those that it forked, which a terminal interrupts too, at once.

    The plugin's threads would wait for ever for a process that was ended, and its temporary files would stay.
    """
    owner = os.getpid()
    tempfile.tempdir = tempfile.mkdtemp(prefix="autofn-view-")
    scratch = tempfile.tempdir
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)

    def end(*_: object) -> None:
        if os.getpid() == owner:
            for child in multiprocessing.active_children():
                child.terminate()
            shutil.rmtree(scratch, ignore_errors=True)
        os._exit(0)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)


def loaded(address: str) -> int:
    """Waits until the plugin has read every run; how many there are."""
    while True:
        with urllib.request.urlopen(f"{address}{PLUGIN}/runs") as response:
            found: Any = json.load(response)
        if found["runs"] and not found["loading"]:
            return len(found["runs"])
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(serve(*sys.argv[1:]))
