"""Bytes that every variant of every Function saves for its backward."""

from autofn_harness import asv

globals().update(asv.memory())
