"""PyTorch's own operator; it saves the input, and its backward computes cosh(x)."""

import torch

apply = torch.sinh
