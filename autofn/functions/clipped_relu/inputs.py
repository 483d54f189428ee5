"""What the variants share that save y: the corner as y holds it."""

import torch


def rounded(clip: float, dtype: torch.dtype) -> float:
    """The corner in the dtype of y: kernels compare in float32, where bfloat16's 5.7 is below 5.7."""
    return clip if dtype.itemsize > 2 else torch.tensor(clip, dtype=dtype).item()
