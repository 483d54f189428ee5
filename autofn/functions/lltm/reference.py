"""The formula of the long-term-memory cell in PyTorch operations."""

import torch
import torch.nn.functional as F


def lltm(
    input: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor, old_h: torch.Tensor, old_cell: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(new_h, new_cell) of one step."""
    gates = torch.cat([old_h, input], 1) @ weights.T + bias
    input_gate, output_gate, candidate = gates.chunk(3, 1)
    new_cell = old_cell + F.elu(candidate) * torch.sigmoid(input_gate)
    return torch.tanh(new_cell) * torch.sigmoid(output_gate), new_cell
