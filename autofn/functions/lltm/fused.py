"""The long-term-memory cell with a compiled forward and a compiled backward: Inductor's matrix products, and the
pointwise part as one kernel each."""

import torch
import torch.nn.functional as F

from autofn.compiled import column_sums, graph
from autofn.refusal import refuse_double_backward

from .inputs import check, joined_gradients, saved


@graph
def forward(input, weights, bias, old_h, old_cell):
    gates = torch.addmm(bias, torch.cat([old_h, input], 1), weights.t())
    input_gate, output_gate, candidate = gates.chunk(3, 1)
    new_cell = old_cell + F.elu(candidate) * torch.sigmoid(input_gate)
    return torch.tanh(new_cell) * torch.sigmoid(output_gate), new_cell, gates


@graph
def backward(grads, tensors, needed):
    grad_h, grad_cell = grads
    input, weights, old_h, gates, new_cell = tensors
    needs_input, needs_weights, needs_bias, needs_h, needs_cell = needed
    input_gate, output_gate, candidate = gates.chunk(3, 1)
    i, o, a, t = torch.sigmoid(input_gate), torch.sigmoid(output_gate), F.elu(candidate), torch.tanh(new_cell)
    grad_output_gate = torch.zeros_like(o)
    if grad_h is not None:
        grad_output_gate = grad_h * t * o * (1 - o)
        through_h = grad_h * o * (1 - t * t)
        grad_cell = through_h if grad_cell is None else grad_cell + through_h
    grad_input_gate = grad_cell * a * i * (1 - i)
    grad_candidate = grad_cell * i * (a.clamp(max=0) + 1)
    grad_gates = torch.cat([grad_input_gate, grad_output_gate, grad_candidate], 1)
    grad_old_h, grad_input = joined_gradients(grad_gates, weights, new_cell.shape[1], needs_h, needs_input)
    return (
        grad_input,
        grad_gates.t().mm(torch.cat([old_h, input], 1)) if needs_weights else None,
        column_sums(grad_gates) if needs_bias else None,
        grad_old_h,
        grad_cell if needs_cell else None,
    )


class Lltm(torch.autograd.Function):
    @staticmethod
    def forward(input, weights, bias, old_h, old_cell):
        check(input, weights, bias, old_h, old_cell)
        return forward(input, weights, bias, old_h, old_cell)

    @staticmethod
    def setup_context(ctx, inputs, output):
        input, weights, _, old_h, _ = inputs
        _, new_cell, gates = output
        ctx.mark_non_differentiable(gates)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*saved(ctx, input, weights, old_h), gates, new_cell)

    @staticmethod
    @refuse_double_backward("lltm (fused)")
    def backward(ctx, grad_h, grad_cell, _):
        if grad_h is None and grad_cell is None:
            return None, None, None, None, None
        return backward((grad_h, grad_cell), ctx.saved_tensors, ctx.needs_input_grad)


def apply(input, weights, bias, old_h, old_cell):
    return Lltm.apply(input, weights, bias, old_h, old_cell)[:2]
