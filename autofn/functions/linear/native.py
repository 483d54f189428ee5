"""PyTorch's own operator."""

from torch.nn.functional import linear as apply

__all__ = ["apply"]
