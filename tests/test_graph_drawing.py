"""The drawing of a graph: every node once, its edges, its leaves by name, and what it keeps."""

from __future__ import annotations

import pytest
import torch

from autofn.observe.graph import beside, mermaid, nodes


def test_a_drawing_has_each_node_once_and_names_the_leaves():
    a = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor(3.0, requires_grad=True)

    drawn = mermaid(a * b + a, a=a).splitlines()

    assert drawn == [
        "flowchart TD",
        '  n0["AddBackward0"]',
        '  n1("a")',
        '  n2["MulBackward0<br/>keeps other<br/>keeps self"]',
        '  n3("leaf")',
        "  n0 --> n2",
        "  n0 --> n1",
        "  n2 --> n1",
        "  n2 --> n3",
    ]


def test_a_kept_tensor_without_history_is_a_constant():
    x = torch.tensor(2.0, requires_grad=True)

    assert "keeps other, a constant" in mermaid(x * torch.tensor(3.0), x=x)


def test_what_a_python_function_keeps_is_numbered_and_its_outputs_are_told_apart():
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x + 1)
            return x + 1, x + 2

        @staticmethod
        def backward(ctx, first, second):
            return first + second

    x = torch.tensor(2.0, requires_grad=True)
    drawn = mermaid(Both.apply(x)[1].neg(), x=x)

    assert '["BothBackward<br/>keeps tensor 0<br/>keeps tensor 1, a constant"]' in drawn
    assert "n0 -->|output 1| n1" in drawn


def test_graphs_beside_each_other_share_no_node():
    x = torch.tensor(2.0, requires_grad=True)

    drawn = beside(first=(x.exp(), {"x": x}), second=(x.neg(), {"x": x})).splitlines()

    assert drawn == [
        "flowchart TD",
        "  subgraph first",
        "    direction TD",
        '    first_0["ExpBackward0<br/>keeps result"]',
        '    first_1("x")',
        "    first_0 --> first_1",
        "  end",
        "  subgraph second",
        "    direction TD",
        '    second_0["NegBackward0"]',
        '    second_1("x")',
        "    second_0 --> second_1",
        "  end",
    ]


def test_a_freed_graph_cannot_be_drawn():
    y = torch.tensor(2.0, requires_grad=True).exp()
    y.backward()

    with pytest.raises(RuntimeError, match="a second time"):
        mermaid(y)


def test_a_tensor_without_a_graph_has_no_nodes():
    assert list(nodes([torch.ones(1)])) == []
