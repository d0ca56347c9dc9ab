"""The repository's promises to its readers: short files, live links, no private paths."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST = 350
LONGEST_SCHEDULE = 170


def _tracked(*suffixes: str) -> list[Path]:
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [path for path in files if path.suffix in suffixes and path.exists()]


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_files_are_short_enough_to_read():
    long = {str(p.relative_to(ROOT)): _lines(p) for p in _tracked(".py", ".sh")}
    assert {name: count for name, count in long.items() if count > LONGEST} == {}


def test_schedules_are_readable_in_a_minute():
    folder = ROOT / "schedules/cpu"
    long = {p.name: _lines(p) for p in _tracked(".py") if p.is_relative_to(folder)}
    assert {name: count for name, count in long.items() if count > LONGEST_SCHEDULE} == {}


def test_assembly_is_read_through_one_module():
    """LLVM's and OpenCL's text is not assembly."""
    pattern = re.compile(r"inspect_source\((?:\"s\")?\)")
    tests = [path for path in _tracked(".py") if path.is_relative_to(ROOT / "tests")]
    found = {str(path.relative_to(ROOT)) for path in tests if pattern.search(path.read_text())}
    assert found == {"tests/assembly.py", "tests/opencl.py"}


def test_no_file_names_a_private_folder():
    pattern = re.compile(r"(?<![\w.])/(?:home|root|work|Users|tmp)/[\w.]")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in [*_tracked(".py", ".sh", ".md", ".toml", ".txt", ".jsonl"), ROOT / ".ci/run"]
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == []


def test_links_of_the_documents_resolve():
    documents = _tracked(".md")
    dead = []
    for document in documents:
        # fenced code may hold anything that looks like a link
        text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            name, _, anchor = target.partition("#")
            if "://" in target:
                continue
            file = document.parent / name if name else document
            # after a figure's name, an anchor selects the light or the dark theme
            has_anchors = file.suffix == ".md"
            if not file.exists() or (anchor and has_anchors and anchor not in _anchors(file)):
                dead.append(f"{document.name}: {target}")
    assert dead == []


def test_files_that_documents_name_exist():
    """Placeholders are capitals: ``schedules/FAMILY/NAME.py``."""
    path = re.compile(r"`((?:tvmconv|schedules|tests|examples|docs)/[a-z\d_./]+)[`:]")
    missing = [
        f"{document.name}: {name}"
        for document in _tracked(".md")
        if document.parent.name != "changelog.d"
        for name in path.findall(document.read_text())
        if not (ROOT / name).exists()
    ]
    assert missing == []


def _anchors(document: Path) -> set[str]:
    """Anchors that GitHub makes of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


def test_version_is_stated_once():
    """In ``tvmconv/core/version.py``, from which both packages take it."""
    version = re.compile(r'version"? *[=:] *"?\d', re.IGNORECASE)
    projects = [path for path in _tracked(".toml") if path.name == "pyproject.toml"]
    stated = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in [*projects, ROOT / "CITATION.cff", ROOT / "tvmconv/__init__.py"]
        for line in path.read_text().splitlines()
        if version.match(line)
    ]
    assert (len(projects), stated) == (2, [])


def test_saved_results_stay_small():
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs/results").iterdir()}
    assert sum(sizes.values()) < 1.2e6, sizes
