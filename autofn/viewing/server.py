"""The process: `python -m autofn.viewing.server FOLDER PORT OFFLINE`, PORT and OFFLINE may be empty."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
import threading
import time
import urllib.request
from multiprocessing import get_all_start_methods
from typing import Any

HOST = "127.0.0.1"
PLUGIN = "data/plugin/pytorch_profiler"


def serve(folder: str, port: str, offline: str) -> int:
    """Starts TensorBoard, says its address and when all traces are loaded, and waits to be interrupted."""
    # Read when the plugin is imported: a process a trace, of which spawn would start each as a new interpreter.
    if sys.platform == "linux" and "fork" in get_all_start_methods():
        os.environ.setdefault("TORCH_PROFILER_START_METHOD", "fork")
    from tensorboard import program
    from tensorboard.plugins.core import core_plugin

    from .plugin import plugin

    # What a trace is made of has no cycles; looking for some takes a third of reading it, in every forked process.
    gc.disable()
    # An end by SIGTERM is an orderly one: the plugin has a process that it ends at exit.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    board = program.TensorBoard([core_plugin.CorePluginLoader(), plugin(offline=bool(offline))])
    board.configure(logdir=folder, host=HOST, port=int(port) if port else None, load_fast="false", reload_interval=0)
    try:
        address = board.launch()
    except program.TensorBoardServerException as error:
        print(f"autofn: view: {error}", file=sys.stderr)
        return 2
    print(f"TensorBoard: {address}#pytorch_profiler", flush=True)
    try:
        print(f"{loaded(address)} runs are loaded; Ctrl-C ends", flush=True)
        gc.enable()
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
    return 0


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
