"""A package with a registry of its own, whose Functions take a known time. Worker processes of the tests import it."""
