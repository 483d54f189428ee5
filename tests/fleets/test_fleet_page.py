"""docs/howto/run-on-a-cluster.md in a checkout with a planted `square`, on a Slurm of one node of two kinds."""

from __future__ import annotations

import documents
import one_node_slurm
import pytest
from support import ROOT, commit, scratch_repository, shell

pytestmark = pytest.mark.slow


def test_the_page_shows_what_its_commands_print(tmp_path):
    reason = one_node_slurm.missing()
    if reason:
        pytest.skip(reason)
    checkout = scratch_repository(tmp_path / "checkout", "square")
    (checkout / "README.md").write_text("Read on.\n")
    commit(checkout, "second")
    with one_node_slurm.one_node(tmp_path / "slurm") as cluster:
        own = shell(tmp_path / "programs", checkout, AUTOFN_NO_EXTENSION="1", HOME=str(checkout), **cluster)
        page = documents.play(ROOT / "docs" / "howto" / "run-on-a-cluster.md", checkout, own)
    assert page.wrong() == []
