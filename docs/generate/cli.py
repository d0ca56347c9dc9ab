"""The page of the command line, from the help texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import typer

from tvmconv.cli.main import EPILOG, app

_HEAD = """# Command line

For everyone who uses `tvmconv` in a shell. Every subcommand is listed with its options.
`tvmconv SUBCOMMAND --help` prints the same.

"""
_EXAMPLES = re.compile(r"\x08\nExamples:\n(.*?)(?=\n\n|$)", re.DOTALL)


def page() -> str:
    """Return the page."""
    group = typer.main.get_command(app)
    parts = [
        _HEAD,
        f"{EPILOG}\n\n",
        "| subcommand | what it does |\n|---|---|\n".replace("what it does", "task"),
    ]
    commands = list(_commands(group))
    for words, command in commands:
        anchor = "tvmconv-" + "-".join(words)
        first = (command.help or "").partition("\n")[0]
        parts.append(f"| [`{' '.join(words)}`](#{anchor}) | {first} |\n")
    parts.append("\nThese options are accepted by every subcommand:\n\n")
    parts.append(_table(_general(commands[0][1])))
    for words, command in commands:
        parts.append(f"\n## tvmconv {' '.join(words)}\n\n{_section(words, command)}")
    return "".join(parts)


def _commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, each in group.commands.items():
        if each.hidden:
            continue
        if hasattr(each, "commands"):
            if each.invoke_without_command:
                yield (*words, name), each
            yield from _commands(each, (*words, name))
        else:
            yield (*words, name), each


def _section(words: tuple[str, ...], command: Any) -> str:
    text = command.help or ""
    examples = _EXAMPLES.search(text)
    parts = [" ".join(_EXAMPLES.sub("", text).split()) + "\n\n"]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    usage = " ".join(_argument(each) for each in arguments)
    parts.append(f"```text\ntvmconv {' '.join(words)} [OPTIONS] {usage}".rstrip() + "\n```\n")
    if examples:
        lines = (line.strip() for line in examples[1].splitlines())
        parts.append("\n```text\n" + "\n".join(lines) + "\n```\n")
    if arguments:
        rows = [(f"`{_argument(each)}`", each.help or "", "") for each in arguments]
        parts.append("\n" + _table(rows, "argument"))
    options = [each for each in command.params if each.param_type_name == "option"]
    shown = [each for each in options if not each.hidden and _panel(each) != "General options"]
    for panel, members in groupby(sorted(shown, key=_panel_order(shown)), key=_panel):
        parts.append(f"\n**{panel}**\n\n" + _table([_row(each) for each in members]))
    return "".join(parts)


def _general(command: Any) -> list[tuple[str, str, str]]:
    return [_row(each) for each in command.params if _panel(each) == "General options"]


def _panel(option: Any) -> str:
    return getattr(option, "rich_help_panel", None) or "Options"


def _panel_order(options: list[Any]) -> Any:
    panels = list(dict.fromkeys(_panel(each) for each in options))
    panels.sort(key=lambda panel: panel == "Output")
    return lambda option: panels.index(_panel(option))


def _argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _row(option: Any) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.metavar and not option.is_flag:
        names = f"{names} `{option.metavar}`"
    shown = option.show_default
    default = shown if isinstance(shown, str) else option.default if shown else None
    if default is None or default is False or callable(default) or option.is_flag:
        default = "required" if option.required else ""
    return names, option.help or "", str(default)


def _table(rows: list[tuple[str, str, str]], first: str = "option") -> str:
    lines = [f"| {first} | meaning | default |", "|---|---|---|"]
    lines += [
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"
