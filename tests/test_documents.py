"""The runner of pages: what is said is compared with what is printed."""

from __future__ import annotations

import documents
import pytest

PAGE = """# Title

```python
x = 2
print(x)
```

```text
{said}
```

## Raising

```python
x / 0
```

```text
ZeroDivisionError: ...
```

```python wrong
raise SystemExit
```
"""


@pytest.fixture
def page(tmp_path):
    def write(text):
        (tmp_path / "page.md").write_text(text)
        documents.run.cache_clear()
        return tmp_path / "page.md"

    yield write
    documents.run.cache_clear()


def test_what_is_printed_as_said_is_fine(page):
    session = documents.run(page(PAGE.format(said="2")))

    assert session.names["x"] == 2
    assert [session.wrong(heading) for heading in ("Title", "Raising")] == [[], []]


def test_what_is_printed_otherwise_is_told(page):
    (wrong,) = documents.run(page(PAGE.format(said="3"))).wrong("Title")

    assert "says\n3" in wrong
    assert "prints\n2" in wrong


@pytest.mark.parametrize("code", ["print(1)", "1 / 0"])
def test_a_block_of_which_nothing_is_said_may_neither_print_nor_raise(code, page):
    text = f"# Title\n\n```python\n{code}\n```\n\nBetween.\n\n```text\n1\n```\n"

    assert len(documents.run(page(text)).wrong("Title")) == 1


def test_a_comment_in_code_is_no_heading(page):
    assert documents.headings(page("# Title\n\n```python\n# Not a heading\n```\n\n```python\npass\n```\n")) == ["Title"]


def test_a_kind_that_is_there_twice_is_refused():
    with pytest.raises(ValueError, match="unpack"):
        documents.block("```python wrong\n1\n```\n\n```python wrong\n2\n```\n", "python wrong")
