"""Other values of arguments that are not differentiated, and indices that repeat."""

import itertools

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, normal, outcome


def constant(*shape, dtype=torch.float64):
    return normal(*shape, dtype=dtype).detach()


def saving(compute):
    def forward(ctx, *arguments):
        ctx.arguments = arguments
        return compute(*arguments)

    return forward


def made(compute, backward):
    return function(saving(compute), lambda ctx, g: backward(g, *ctx.arguments))


def weighted(x, w):
    return (x * x * w).sum(-1)


def weights(dtype=torch.float64):
    return normal(3, 4, dtype=dtype), constant(3, 4, dtype=dtype).softmax(-1)


def scaled(x, k):
    return x * x * k


def halves(dtype=torch.float64):
    return normal(3, dtype=dtype), 1.0


def masked(x, mask):
    return torch.where(mask, x, 0).sum(-1) / mask.sum(-1).clamp(min=1)


def all_kept(dtype=torch.float64):
    return normal(3, 4, dtype=dtype), torch.ones(3, 4, dtype=torch.bool)


def loss(x, y, reduction):
    each = (x - y) ** 2
    return each if reduction == "none" else getattr(each, reduction)()


def targets(dtype=torch.float64):
    return normal(3, 4, dtype=dtype), constant(4, 3, dtype=dtype).mT.contiguous(), "mean"


def signed(x, negate):
    return -x if negate else x * 1


def flag(dtype=torch.float64):
    return normal(3, dtype=dtype), False


def root(x, n):
    return x.sum() if n == 0 else (x**n).sum()


def power(dtype=torch.float64):
    return normal(3, dtype=dtype), 2


WRONG = {
    "weights that sum to 1": (
        weighted,
        lambda g, x, w: (2 * x * w / w.sum(-1, keepdim=True) * g[:, None], None),
        weights,
    ),
    "a scale of 1": (scaled, lambda g, x, k: (2 * x * g, None), halves),
    "a mask that keeps all": (masked, lambda g, x, m: (g[:, None].expand(3, 4) / 4, None), all_kept),
    "the mean": (loss, lambda g, x, y, r: (2 * (x - y) * g / x.numel(), None, None), targets),
    "a flag that is off": (signed, lambda g, x, n: (g * 1, None), flag),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_hidden_assumption_is_found(fault):
    compute, backward, make = WRONG[fault]
    for reference in (None, compute):
        found = findings("other-values", made(compute, backward), make, reference)
        assert found
        assert " in input 1" in found[0].message or " as input " in found[0].message


def test_a_number_is_varied_where_a_reference_knows_its_meaning():
    squares = made(root, lambda g, x, n: (2 * x * g, None))
    assert findings("other-values", squares, power, root)
    assert outcome("other-values", squares, power).status == "n/a"


RIGHT = {
    "weights": (weighted, lambda g, x, w: (2 * x * w * g[:, None], None), weights),
    "a scale": (scaled, lambda g, x, k: (2 * x * g * k, None), halves),
    "a mask": (masked, lambda g, x, m: (g[:, None] * m / m.sum(-1, keepdim=True).clamp(min=1), None), all_kept),
    "a reduction": (
        loss,
        lambda g, x, y, r: (2 * (x - y) * g / (x.numel() if r == "mean" else 1), None, None),
        targets,
    ),
    "a flag": (signed, lambda g, x, n: (-g if n else g * 1, None), flag),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_backward_without_hidden_assumptions_passes(name):
    compute, backward, make = RIGHT[name]
    for reference in (None, compute):
        assert not findings("other-values", made(compute, backward), make, reference)


def test_values_that_the_forward_refuses_are_not_judged():
    def positive(x, k):
        if k != 1.0:
            raise ValueError("k must be 1")
        return x * k

    assert (
        outcome("other-values", made(positive, lambda g, x, k: (g, None)), halves, lambda x, k: x * k).status == "n/a"
    )


def test_values_that_change_what_the_forward_means_are_not_judged():
    once = made(lambda x, k: x * 1, lambda g, x, k: (g, None))
    assert outcome("other-values", once, halves, lambda x, k: x * k).status == "n/a"


# Indices


def gather(table, index):
    return table[index]


def rows(dtype=torch.float64):
    return normal(5, 3, dtype=dtype), torch.tensor([4, 0, 2])


def permuted(dtype=torch.float64):
    return normal(5, 3, dtype=dtype), torch.tensor([0, 1, 2, 3, 4])


INDEX_FAULTS = {
    "assigned": (gather, lambda g, t, i: (torch.zeros_like(t).index_copy(0, i, g), None), rows),
    "averaged": (
        gather,
        lambda g, t, i: (torch.zeros_like(t).index_reduce(0, i, g, "mean", include_self=False), None),
        rows,
    ),
    "an inverse permutation": (gather, lambda g, t, i: (g[i.argsort()], None), permuted),
    "in order already": (gather, lambda g, t, i: (g * 1, None), permuted),
}


@pytest.mark.parametrize("fault", INDEX_FAULTS)
def test_lost_updates_are_found(fault):
    compute, backward, make = INDEX_FAULTS[fault]
    for reference in (None, compute):
        assert findings("repeated-indices", made(compute, backward), make, reference)


@pytest.mark.parametrize("reference", [None, gather], ids=["forward", "reference"])
def test_accumulated_updates_pass(reference):
    for make in (rows, permuted):
        added = made(gather, lambda g, t, i: (torch.zeros_like(t).index_add(0, i, g), None))
        assert not findings("repeated-indices", added, make, reference)
        assert not findings("other-sizes", added, make, reference)


def test_ends_of_segments_are_no_indices():
    def segments(dtype=torch.float64):
        return normal(5, dtype=dtype), torch.tensor([0, 2, 5])

    def sums(x, ends):
        return torch.stack([x[a:b].sum() for a, b in itertools.pairwise(ends)])

    right = made(sums, lambda g, x, ends: (g.repeat_interleave(ends.diff()), None))
    assert outcome("repeated-indices", right, segments, sums).status == "n/a"


def test_the_faults_of_the_corpus_are_found():
    assert of_fault("15_assumes_normalised", {"other-values"})
    assert of_fault("08_duplicate_indices", {"repeated-indices"})
