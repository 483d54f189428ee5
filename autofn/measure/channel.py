"""Messages between the coordinator and its worker processes: one JSON object a line over a Unix socket."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]

# How long a thread that waits for a worker keeps the others from looking, and a worker that has connected from saying
# who it is.
POLL_S, HELLO_S = 0.01, 10.0


class LostError(ConnectionError):
    """The other side has gone."""


class HangError(TimeoutError):
    """The other side has not answered in time."""


class Channel:
    """One end of a connection. Several threads may ask: each gets its own answer."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.buffer = b""
        self.asking = threading.Lock()

    def send(self, message: Message) -> None:
        """Raises LostError where nobody listens any more."""
        try:
            self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise LostError(str(error)) from error

    def receive(self, timeout_s: float | None = None) -> Message:
        """The next message. Raises LostError where the connection ended, HangError after `timeout_s`."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while b"\n" not in self.buffer:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self.connection], [], [], left)[0]:
                raise HangError(f"no answer within {timeout_s:.0f} s")
            try:
                data = self.connection.recv(1 << 16)
            except OSError as error:
                raise LostError(str(error)) from error
            if not data:
                raise LostError("the connection ended")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        message: Message = json.loads(line)
        return message

    def ask(self, message: Message, timeout_s: float | None = None) -> Message:
        """Sends a message and waits for its answer."""
        with self.asking:
            self.send(message)
            return self.receive(timeout_s)

    def close(self) -> None:
        self.connection.close()


def connect(path: str, hello: Message) -> Channel:
    """A connection to the coordinator that listens at `path`, introduced by `hello`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    channel = Channel(connection)
    channel.send(hello)
    return channel


class Listener:
    """Where workers connect to; `accept` hands out the one that introduced itself by a given name."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(str(path))
        self.socket.listen(128)
        self.accepting = threading.Lock()
        self.arrived: dict[str, tuple[Channel, Message]] = {}
        self.given_up: set[str] = set()

    def accept(self, name: str, timeout_s: float, alive: Callable[[], bool] = lambda: True) -> tuple[Channel, Message]:
        """The channel of the worker `name`, with its hello. Several threads may wait, each for its own.

        Raises HangError where it does not come, LostError where `alive` says that it has ended.
        """
        end = time.monotonic() + timeout_s
        while True:
            with self.accepting:
                if name not in self.arrived:
                    self._take(POLL_S)
                if name in self.arrived:
                    return self.arrived.pop(name)
            if not alive():
                raise LostError(f"{name} ended before it was ready; what it said is above")
            if time.monotonic() > end:
                self.given_up.add(name)
                raise HangError(f"{name} did not start within {timeout_s:.0f} s")

    def _take(self, timeout_s: float) -> None:
        """Takes in the next one that connects, for whoever waits for it."""
        if not select.select([self.socket], [], [], timeout_s)[0]:
            return
        channel = Channel(self.socket.accept()[0])
        try:
            hello = channel.receive(HELLO_S)
        except (LostError, HangError):
            channel.close()
            return
        if hello["name"] in self.given_up:
            # It ends when its connection does.
            channel.close()
        else:
            self.arrived[hello["name"]] = channel, hello

    def close(self) -> None:
        for channel, _ in self.arrived.values():
            channel.close()
        self.socket.close()
