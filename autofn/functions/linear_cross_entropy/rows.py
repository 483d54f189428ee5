"""The forward by chunks of rows, which has whole rows of logits and so computes the gradients at once.

`python`, `fused` and `triton` share it; what is theirs is the part between the products.
"""

from collections.abc import Callable
from typing import Any

import torch

from autofn.arithmetic import wide_dtype, widened

from .chunked import add_product, chunks, factors, reduced
from .inputs import Options, check

Part = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], tuple[torch.Tensor, torch.Tensor | None]]
Gradients = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]


def part(logits, target, factors):
    """The rows' losses, and the gradients of logits, which may overwrite them; these only where factors are given."""
    x = widened(logits)
    target = target[:, None]
    logsumexp = x.logsumexp(1, keepdim=True)
    losses = (logsumexp - x.gather(1, target)).squeeze(1)
    if factors is None:
        return losses, None
    factors = factors[:, None]
    p = x.sub_(logsumexp).exp_().mul_(factors)
    return losses, p.scatter_add_(1, target, -factors).to(logits.dtype)


def forward(
    part: Part, hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, options: Options
) -> Gradients:
    """The loss and its gradients by hidden and by weight, None for those that are not needed."""
    check(hidden, weight, target, options)
    hidden, weight = hidden.contiguous(), weight.contiguous()
    rows, vocabulary = hidden.shape[0], weight.shape[0]
    losses = hidden.new_empty(rows, dtype=wide_dtype(hidden))
    grad_hidden = torch.empty_like(hidden) if options.needs_hidden else None
    # In float32 for half types: each chunk of rows adds to it.
    sums = torch.zeros_like(weight, dtype=wide_dtype(weight)) if options.needs_weight else None
    each = factors(target, options, wide_dtype(hidden)) if options.needs_hidden or options.needs_weight else None
    # An ignored row has any word as its target, and factor 0.
    words = torch.where(target != options.ignore_index, target, 0)
    for chunk in chunks(rows, vocabulary, hidden.device):
        logits = hidden[chunk] @ weight.t()
        losses[chunk], grad = part(logits, words[chunk], None if each is None else each[chunk])
        if grad_hidden is not None:
            torch.mm(grad, weight, out=grad_hidden[chunk])
        if sums is not None:
            add_product(sums, grad.t(), hidden[chunk])
    loss = reduced(losses, target, options).to(hidden.dtype)
    return loss, grad_hidden, None if sums is None else sums.to(weight.dtype)


def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Gradients) -> None:
    """Saves the gradients, and the inputs, by which a second derivative is refused."""
    hidden, weight, *_ = inputs
    _, *grads = output
    ctx.mark_non_differentiable(*(grad for grad in grads if grad is not None))
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(hidden, weight, *grads)


def backward(ctx: Any, grad_output: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    """The saved gradients times that of the loss."""
    if grad_output is None:
        return None, None, None, None
    _, _, *grads = ctx.saved_tensors
    needed = ctx.needs_input_grad
    return *(grad * grad_output if need else None for grad, need in zip(grads, needed, strict=False)), None, None
