"""The long-term-memory cell as a torch.autograd.Function in PyTorch operations.

The gates are an output, hidden by `apply`: so they can be saved and yet have a gradient of their own, which is what the
second derivative asks for. Saved as a mere intermediate they would be constants to it.
"""

import torch
import torch.nn.functional as F

from .inputs import check, joined_gradients, saved


class Lltm(torch.autograd.Function):
    @staticmethod
    def forward(input, weights, bias, old_h, old_cell):
        check(input, weights, bias, old_h, old_cell)
        gates = torch.addmm(bias, torch.cat([old_h, input], 1), weights.t())
        input_gate, output_gate, candidate = gates.chunk(3, 1)
        new_cell = old_cell + F.elu(candidate) * torch.sigmoid(input_gate)
        return torch.tanh(new_cell) * torch.sigmoid(output_gate), new_cell, gates

    @staticmethod
    def setup_context(ctx, inputs, output):
        input, weights, _, old_h, _ = inputs
        _, new_cell, gates = output
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*saved(ctx, input, weights, old_h), gates, new_cell)

    @staticmethod
    def backward(ctx, grad_h, grad_cell, grad_gates):
        input, weights, old_h, gates, new_cell = ctx.saved_tensors
        needs_input, needs_weights, needs_bias, needs_h, needs_cell = ctx.needs_input_grad
        if grad_h is not None or grad_cell is not None:
            made, grad_cell = pointwise_backward(grad_h, grad_cell, gates, new_cell)
            grad_gates = made if grad_gates is None else grad_gates + made
        if grad_gates is None:
            return None, None, None, None, None
        grad_old_h, grad_input = joined_gradients(grad_gates, weights, new_cell.shape[1], needs_h, needs_input)
        return (
            grad_input,
            grad_gates.t().mm(torch.cat([old_h, input], 1)) if needs_weights else None,
            grad_gates.sum(0) if needs_bias else None,
            grad_old_h,
            grad_cell if needs_cell else None,
        )


def pointwise_backward(grad_h, grad_cell, gates, new_cell):
    """The gradients of the gates and of old_cell; one of grad_h and grad_cell may be None."""
    input_gate, output_gate, candidate = gates.chunk(3, 1)
    i, o, a, t = torch.sigmoid(input_gate), torch.sigmoid(output_gate), F.elu(candidate), torch.tanh(new_cell)
    grad_output_gate = torch.zeros_like(o)
    if grad_h is not None:
        grad_output_gate = grad_h * t * o * (1 - o)
        through_h = grad_h * o * (1 - t * t)
        grad_cell = through_h if grad_cell is None else grad_cell + through_h
    grad_input_gate = grad_cell * a * i * (1 - i)
    grad_candidate = grad_cell * i * (a.clamp(max=0) + 1)
    return torch.cat([grad_input_gate, grad_output_gate, grad_candidate], 1), grad_cell


def apply(input, weights, bias, old_h, old_cell):
    return Lltm.apply(input, weights, bias, old_h, old_cell)[:2]
