"""The language of comments, docstrings, messages and documents gets no worse."""

from __future__ import annotations

from tests.packaging import words


def test_counts_only_fall():
    """``python -m tests.packaging.words show PATH`` says which; ``update`` keeps what fell."""
    assert words.risen(words.allowed(), words.counted()) == []


def test_what_is_counted(tmp_path):
    (tmp_path / "page.md").write_text(
        "# Peers\n\nThis is no page. `peers` is a name.\n\n```\npeer\n```\n\n| told | a b |\n"
    )
    (tmp_path / "code.py").write_text(
        '"""Stands here."""\n\n# the least\n# size\npeer = "beside"\n'
        'raise ValueError(f"{peer} is mended; at least")\n'
    )
    banned, _ = words._banned()
    found = {
        path.name: [m for line in words.sentences(path) for m in banned.findall(line)]
        for path in tmp_path.iterdir()
    }
    assert found == {
        "page.md": ["Peers", "is no", "told"],
        "code.py": ["least", "Stands", "mended"],
    }
    (tmp_path / "long.md").write_text("word " * 25 + "\n\n" + "word " * 26 + "\n")
    assert [words._is_long(line) for line in words.sentences(tmp_path / "long.md")] == [False, True]


def test_a_new_file_takes_the_counts_of_one_that_is_gone():
    allowed = {"a.py": (2, 1), "b.py": (3, 0)}
    assert words.risen(allowed, {"b.py": (3, 0), "moved/a.py": (2, 1)}) == []
    assert words.risen(allowed, {"a.py": (2, 1), "b.py": (3, 0), "new.py": (1, 0)}) != []
    assert words.risen(allowed, {"a.py": (3, 0), "b.py": (0, 0)}) != []
