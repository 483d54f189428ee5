"""The pages of a repository that has no definitions of its own in `reports/`."""
