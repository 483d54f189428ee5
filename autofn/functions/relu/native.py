"""PyTorch's own operator, with the same gradients at 0 and at NaN; it too saves the output."""

import torch

apply = torch.relu
