"""Forward, backward and forward_backward time of every variant of every Function."""

from autofn_harness import asv

globals().update(asv.timing())
