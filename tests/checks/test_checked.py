"""What a check gave is data that can be written down, whatever a rule has measured."""

import json

from planted.written import function, normal

import autofn
from autofn.records import to_line


def test_an_error_that_is_no_number_can_be_written():
    def forward(ctx, x):
        y = x.relu() ** 2
        ctx.save_for_backward(y)
        return y

    root = function(forward, lambda ctx, g: 2 * g * ctx.saved_tensors[0].sqrt())
    found = autofn.check(root, lambda: (normal(3, 4),), select=("double-backward",))
    (only,) = found.errors
    assert only.observed == "nan"
    assert only.error is None
    assert all(json.loads(to_line(record)) for record in found.records)
