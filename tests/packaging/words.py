"""Counts banned forms and long sentences in comments, docstrings, messages and documents.

``python -m tests.packaging.words show PATH`` lists what a file has. ``update`` writes the counts
into ``word_counts.json`` where they fell; ``update --accept`` also where they rose, for a merge.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
COUNTS = Path(__file__).with_name("word_counts.json")
_BANNED = Path(__file__).with_name("banned_words.txt")
_SUFFIXES = (".py", ".md", ".c", ".h", ".hpp")
_LONGEST = 25  # in the longest sentence
_NUMERALS = 3  # of a paragraph
_COLUMNS, _WIDEST = 6, 200  # of a table
# numbers in names, such as F(4x4), INT8 and 3x3, do not count
_NUMERAL = re.compile(r"(?<![\w.,(^-])\d[\d.,]*(?:e-?\d+)?\b(?![-\w(])")
# names, options and arguments are not prose
_CODE = re.compile(
    r"``[^`]*``|`[^`]*`|'\+[\w+]+'|:\w+:|\]\([^)]*\)|https?://\S+|--[\w-]+|\b\w+=\S*"
)
# calls with strings that users read, besides classes of errors
_MESSAGES = ("warn", "tell", "echo", "fail", "error", "unsupported", "Option", "Argument")

# for one file: banned forms, and sentences that are too long
Count = tuple[int, int]


def files() -> list[Path]:
    """The files that are read: links into another read folder are left out."""
    found = [ROOT / "README.md"]
    for folder in ("tvmconv", "schedules", "tests", "docs"):
        found += [path for path in (ROOT / folder).rglob("*") if path.suffix in _SUFFIXES]
    return sorted(path for path in found if path == path.resolve())


@cache
def _banned() -> tuple[re.Pattern[str], tuple[tuple[re.Pattern[str], str], ...]]:
    lines = [line for line in _BANNED.read_text().splitlines() if line and line[0] != "#"]
    pairs = [line.split(" => ") for line in lines]
    each = tuple((re.compile(form, re.IGNORECASE), remedy) for form, remedy in pairs)
    return re.compile("|".join(form for form, _ in pairs), re.IGNORECASE), each


def _comments(text: str) -> Iterator[str]:
    """Comments of Python, those on consecutive lines as one text."""
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != last + 1:
                yield "\n".join(block)
                block = []
            block.append(token.string.lstrip("#: "))
            last = token.start[0]
    yield "\n".join(block)


def _strings(node: ast.AST) -> str:
    """The literal text below a node; a value in it counts as one unit."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.FormattedValue):
        return "X"
    if isinstance(node, ast.JoinedStr):
        return "".join(_strings(part) for part in node.values)
    parts = (_strings(child) for child in ast.iter_child_nodes(node))
    return "\n\n".join(part for part in parts if part)


def without_examples(help_text: str) -> str:
    """A help text less the paragraphs after a backspace, which click prints verbatim."""
    return re.sub(r"\x08\n.*?(?=\n\n|$)", "", help_text, flags=re.DOTALL)


def _python(text: str) -> Iterator[str]:
    yield from _comments(text)
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield without_examples(ast.get_docstring(node) or "")
    yield from messages(tree)


def messages(tree: ast.Module) -> Iterator[str]:
    """The errors, warnings, notes and help texts of a Python source."""
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    covered: set[ast.AST] = set()
    for node in ast.walk(tree):
        name = ""
        if node in covered:
            continue
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if isinstance(node, ast.Raise) or name in _MESSAGES or name.endswith(("Error", "Warning")):
            parts = [node]
        else:
            options = getattr(node, "keywords", ())
            parts = [option.value for option in options if option.arg == "help"]
        for part in parts:
            yield _strings(part)
            covered |= (inside := set(ast.walk(part)))
            names = {each.id for each in inside if isinstance(each, ast.Name)}
            yield from (_strings(constants[each]) for each in sorted(names & constants.keys()))


def _texts(path: Path) -> Iterator[str]:
    text = path.read_text()
    if path.suffix == ".py":
        yield from _python(text)
    elif path.suffix == ".md":
        # a cell, a heading and an item are texts of their own
        prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        yield re.sub(r" \| |^\||\|$|^#+ |^ *[-*] |^ *\d+\. ", "\n\n", prose, flags=re.MULTILINE)
    else:
        for comment in re.findall(r"/\*.*?\*/|//[^\n]*", text, flags=re.DOTALL):
            # indented lines show code
            prose = re.sub(r"^\s*(?:\*|//) {5,}.*$", "", comment, flags=re.MULTILINE)
            yield re.sub(r"^[^\S\n]*[/*]+[^\S\n]*|\*/", "", prose, flags=re.MULTILINE)


def _paragraphs(text: str) -> Iterator[str]:
    """Lines between empty lines and changes of the indentation, without doctests and names."""
    block: list[str] = []
    indent = 0
    for line in [*text.splitlines(), ""]:
        found = len(line) - len(line.lstrip())
        is_break = re.fullmatch(r"[ -]*|\s*(>>>|\.\.\.) .*|\s*\w+(, \w+)*", line) is not None
        if block and (is_break or found != indent or line.lstrip().startswith("- ")):
            yield " ".join(block)
            block = []
        if not is_break:
            block.append(line.strip())
            indent = found


def faults(text: str) -> list[str]:
    """The sentences of a text that have a banned form or are too long."""
    lines = (
        sentence
        for paragraph in _paragraphs(_CODE.sub("X", text))
        for sentence in re.split(r"(?<=[.!?]) ", paragraph)
    )
    return [line for line in lines if _is_long(line) or _banned()[0].search(line)]


def sentences(path: Path) -> Iterator[str]:
    """The sentences of a file, each on one line, without names in backticks."""
    for text in _texts(path):
        # an empty line, an underlined title and another indentation begin a paragraph
        for paragraph in re.split(r"\n\s*\n|\n *-{3,}\n|\n(?=    )|\n *- ", _CODE.sub("X", text)):
            line = " ".join(paragraph.split())
            yield from (part for part in re.split(r"(?<=[.!?]) ", line) if part)


def shape_faults(page: str) -> list[str]:
    """Paragraphs of a page with more than three numerals, and tables that are too wide."""
    prose = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\|.*", prose, flags=re.MULTILINE)
    found = [
        row
        for row in rows
        if len(row) > _WIDEST or len(re.findall(r"(?<!\\)\|", row)) > _COLUMNS + 1
    ]
    prose = re.sub(r"^\|.*|^#.*", "", _CODE.sub("X", prose), flags=re.MULTILINE)
    # an item of a list is a paragraph, which begins after its number
    for paragraph in re.split(r"\n\s*\n|^ *(?:[-*]|\d+\.) ", prose, flags=re.MULTILINE):
        if len(_NUMERAL.findall(paragraph)) > _NUMERALS:
            found.append(" ".join(paragraph.split()))
    return found


def _is_long(sentence: str) -> bool:
    return sum(any(c.isalpha() for c in part) for part in sentence.split()) > _LONGEST


def counted() -> dict[str, Count]:
    """Counts of every file that has any, by its path in the repository."""
    banned, _ = _banned()
    found = {}
    for path in files():
        lines = list(sentences(path))
        count = sum(len(banned.findall(line)) for line in lines), sum(map(_is_long, lines))
        if any(count):
            found[path.relative_to(ROOT).as_posix()] = count
    return found


def risen(allowed: Mapping[str, Count], now: Mapping[str, Count]) -> list[str]:
    """Counts that rose: in a listed file, or in all, for new or moved files."""
    worse = [
        f"{name}: {kind} {count[index]}, {allowed[name][index]} before"
        for name, count in now.items()
        for index, kind in enumerate(("banned forms", "long sentences"))
        if name in allowed and count[index] > allowed[name][index]
    ]
    for index, kind in enumerate(("banned forms", "long sentences")):
        most, total = (sum(count[index] for count in of.values()) for of in (allowed, now))
        if total > most:
            new = [name for name, count in now.items() if name not in allowed and count[index]]
            worse.append(f"in all: {kind} {total}, {most} before; files not listed: {new}")
    return worse


def allowed() -> dict[str, Count]:
    """The counts that are committed."""
    return {name: (int(a), int(b)) for name, (a, b) in json.loads(COUNTS.read_text()).items()}


def _show(paths: list[Path]) -> None:
    for path in paths:
        for line in sentences(path.resolve()):
            for form, remedy in _banned()[1]:
                for match in form.finditer(line):
                    print(f"{path}: {match[0].strip()!r} in {line!r}; write: {remedy}")
            if _is_long(line):
                print(f"{path}: {len(line.split())} words in {line!r}")


def main() -> None:
    """Show what files have, or write the counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.words")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("show").add_argument("paths", nargs="+", type=Path)
    update = commands.add_parser("update")
    update.add_argument("--accept", action="store_true", help="also write counts that rose")
    given = parser.parse_args()
    if given.command == "show":
        _show(given.paths)
        return
    now = counted()
    worse = [] if given.accept else risen(allowed(), now)
    if worse:
        sys.exit("\n".join([*worse, "nothing is written"]))
    lines = [f"{json.dumps(name)}: {list(count)}" for name, count in now.items()]
    COUNTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
