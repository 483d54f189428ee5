"""PyTorch's own operator; it too saves the input."""

import torch

apply = torch.square
