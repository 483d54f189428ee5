"""How the samples of a time were taken, in words that records carry: results of different protocols do not compare.

No torch.
"""

from __future__ import annotations

WALL = "wall"
# Of the ways that `ways.py` tells of. Cold and warm are different metrics: a Record's `cache` keeps them apart.
CACHE = {WALL: "warm", "events-warm": "warm", "events-cold": "cold", "graph": "warm"}
VERSION = "1"

# Of arms in lockstep, in processes of their own: placed anew for each sample, several generations a server.
LOCKSTEP = {
    "forward": "lockstep-calls/3",
    "backward": "lockstep-fresh-graphs/3",
    "forward_backward": "lockstep-grad-none/3",
    "inference": "lockstep-no-grad/3",
}
# Of all arms in one process.
IN_PROCESS = {
    "forward": "calls/1",
    "backward": "fresh-graphs/1",
    "forward_backward": "grad-none/1",
    "inference": "no-grad/1",
}


def protocol(way: str, sampling: str) -> str:
    """A Record's `protocol`: how the samples were taken (such as "calls/1"), and the way, but for the wall's."""
    return sampling if way == WALL else f"{sampling}+{way}/{VERSION}"


def way_of(protocol: str) -> str:
    """The way that a protocol names."""
    return protocol.partition("+")[2].partition("/")[0] or WALL
