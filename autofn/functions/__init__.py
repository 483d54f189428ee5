"""The Functions that ship with the package: one folder each, found by the registry."""
