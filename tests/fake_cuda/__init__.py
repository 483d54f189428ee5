"""A package with a registry of its own, whose worker processes take the CPU for a CUDA device with a made-up clock."""
