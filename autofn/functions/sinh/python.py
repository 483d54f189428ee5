"""The hyperbolic sine as a torch.autograd.Function in PyTorch operations.

The exponentials are outputs of the Function, though nobody sees them: what is saved is then known to autograd as a
function of x. Saved as mere intermediates they would be constants to the second derivative: docs/lessons/sinh.md.
"""

import torch

from autofn import require


class Sinh(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        require.floating("sinh", x=x)
        rising, falling = torch.exp(x), torch.exp(-x)
        return (rising - falling) / 2, rising, falling

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, rising, falling = output
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(rising, falling)

    @staticmethod
    def backward(ctx, grad_output, grad_rising, grad_falling):
        rising, falling = ctx.saved_tensors
        slope = (rising + falling) / 2
        grad_x = torch.zeros_like(slope) if grad_output is None else grad_output * slope
        # Undefined in a first backward: they come from the backward of what this one returns.
        if grad_rising is not None:
            grad_x = grad_x + grad_rising * rising
        if grad_falling is not None:
            grad_x = grad_x - grad_falling * falling
        return grad_x


def apply(x):
    return Sinh.apply(x)[0]
