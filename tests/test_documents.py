"""The runner of pages: what is said is compared with what is printed."""

from __future__ import annotations

import os

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


SHELL = """# Title

```python title="mine.py"
SAID = {first}
```

```console
$ python -c "import mine; print(mine.SAID)" \\
    && false
$ echo "status $?"
```

```text
{first}
status 1
```

```python title="mine.py"
SAID = 2
```

```python
import mine

print(mine.SAID)
```

```text
2
```
"""


def play(page, text):
    path = page(text)
    return documents.play(path, path.parent, {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}).wrong()


def test_a_session_of_a_shell_has_its_files_and_its_statuses(page):
    assert play(page, SHELL.format(first=1)) == []


@pytest.mark.parametrize("said", ["3\n", "2\nand more\n"])
def test_what_a_command_prints_otherwise_is_told(page, said):
    (wrong,) = play(page, f"# Title\n\n```console\n$ echo 2\n```\n\n```text\n{said}```\n")

    assert "prints\n2" in wrong


@pytest.mark.parametrize(
    ("text", "reason"),
    [("```console\necho 2\n```\n", "begins with `\\$ `"), ("```yaml\na: 1\n```\n", "a file, console, python or what")],
)
def test_what_would_not_be_run_is_refused(page, text, reason):
    with pytest.raises(ValueError, match=reason):
        play(page, text)


MEASURED = """┃ Variant ┃ forward ┃ new saved bytes ┃
│ python  │ {python} │ 256 KiB │
│ cpp     │ {cpp} │ {bytes} │
{rest}"""


def same(one, other):
    return documents.unmeasured(MEASURED.format(**one)) == documents.unmeasured(MEASURED.format(**other))


FIRST = {"python": "61.2 µs ±2.1%  1.43x faster", "cpp": "9 µs", "bytes": "0 B", "rest": "3 same, 1 cannot tell\n"}


@pytest.mark.parametrize(
    "change",
    [
        {"python": "1.07 ms ±12%  0.90x ?"},
        {"cpp": "12.1 µs"},
        {"rest": "unsteady machine: other processes kept up to 1.3 cores busy\n1 faster, 3 same\n"},
        {"rest": "3 same, 1 cannot tell\n", "cpp": "12 ns"},
        {"rest": "backward  engine: of  [[5]]  faster  1 -> 1  2 ns -> 1 ns\n          Node\n1 same\n"},
        {"rest": "│ swish small │ forward │ slower │ 1.00 ms │ 2.00 ms │ +100.0% │\n4 cannot tell\n"},
    ],
)
def test_another_measurement_prints_the_same(change):
    assert same(FIRST, {**FIRST, **change})


@pytest.mark.parametrize(
    "change",
    [{"bytes": "64 KiB"}, {"python": "n/a"}, {"rest": "2 failed\n"}, {"rest": "│ swish │ more held_bytes │ 2 B │\n"}],
)
def test_other_bytes_failures_and_lines_are_not_the_same(change):
    assert not same(FIRST, {**FIRST, **change})


def test_a_rule_more_changes_no_page():
    row = "│ swish    │ python │ {passed} │ 0 │ 0 │ 1 │ 12 │ 3.4 │\n{checks} checks, {errors} errors\n"
    pages = [
        documents.unmeasured(row.format(passed=p, checks=c, errors=e))
        for p, c, e in [(8, 9, 0), (88, 89, 0), (8, 9, 1)]
    ]
    assert pages[0] == pages[1] != pages[2]
