"""The form of every subcommand: grouped help, options accepted everywhere, former names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tvmconv.cli import destinations, output
from tvmconv.cli.values import Panel

GENERAL = Panel("General options")
# the last headings of the help; the others follow the order of the options
LAST = (destinations.OUTPUT.heading, GENERAL.heading)

# former name -> name; accepted for one release
RENAMED = {
    "--against": "--relative-to",
    "--keep": "--emit-sources",
    "--log": "--tuning-log",
    "--peer-python": "--baseline-python",
    "--peers": "--baselines",
    "--requantise": "--requantize",
    "--save": "--report",
    "--space": "--search",
}


class Command(TyperCommand):
    """A subcommand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept the former names of options."""
        return list(super().parse_args(ctx, _renamed(args, self.params)))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The usage line, with arguments by their metavars alone."""
        arguments = [each for each in self.params if each.param_type_name == "argument"]
        return [
            self.options_metavar or "",
            *(a.metavar or "" if a.required else f"[{a.metavar}]" for a in arguments),
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options of the help under the headings that they name."""
        _write_options(self, ctx, formatter)


class Group(TyperGroup):
    """A group of subcommands."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the subcommands first, which readers look for."""
        self.format_commands(ctx, formatter)
        _write_options(self, ctx, formatter)


def names_of(params: list[Any]) -> set[str]:
    """All names of some options."""
    return {name for each in params for name in each.opts}


def _renamed(args: list[str], params: list[Any]) -> list[str]:
    """Arguments with former names of options replaced."""
    known = names_of(params)
    found: list[str] = []
    for index, arg in enumerate(args):
        if arg == "--":
            return [*found, *args[index:]]
        name, equals, value = arg.partition("=")
        new = RENAMED.get(name)
        if new in known and name not in known:
            output.warn(f"{name} is deprecated. Use {new}.")
            arg = f"{new}{equals}{value}"
        found.append(arg)
    return found


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for each in command.get_params(ctx):
        if each.param_type_name == "argument":
            groups["Arguments"].append((each.metavar or "", each.help or ""))
        elif (record := each.get_help_record(ctx)) is not None:
            is_general = each.name in ("help", "install_completion", "show_completion")
            heading = each.rich_help_panel or (GENERAL.heading if is_general else "Options")
            groups.setdefault(heading, []).append(record)
    last = {heading: groups.pop(heading) for heading in LAST if heading in groups}
    for heading, rows in {**groups, **last}.items():
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)


def _noted(option: typer.CallbackParam, given: bool) -> bool:
    """Set a general option, which has its effect on the whole process."""
    if given:
        setattr(output.general, str(option.name), True)
    return given


_flag = partial(GENERAL.flag, callback=_noted, is_eager=True)
Verbose = Annotated[
    bool, _flag("-v", "--verbose", help="Print stages with times, and full reports.")
]
Quiet = Annotated[
    bool,
    _flag("-q", "--quiet", help="Print errors only, and the output of --json and --show."),
]
Debug = Annotated[bool, _flag("--debug", help="Show tracebacks of errors.")]


def general(verbose: Verbose = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """Options that are accepted before and after the name of a subcommand."""


def set_parameters(
    command: Callable[..., None], own: inspect.Signature, parameters: list[inspect.Parameter]
) -> None:
    """Show other parameters to typer, which reads them in two places."""
    command.__dict__["__signature__"] = own.replace(parameters=parameters)
    command.__annotations__ = {each.name: each.annotation for each in parameters}


def with_group(
    subcommand: Callable[..., None], name: str, parse: Callable[..., Any]
) -> Callable[..., None]:
    """A subcommand with the options of ``parse`` in place of its parameter ``name``.

    The parameter gets the result of ``parse``.
    """
    own = inspect.signature(subcommand, eval_str=True)
    shared = inspect.signature(parse, eval_str=True).parameters
    parameters: list[inspect.Parameter] = []
    for each in own.parameters.values():
        parameters += shared.values() if each.name == name else [each]

    @wraps(subcommand)
    def command(**given: Any) -> None:
        value = parse(**{key: given.pop(key) for key in shared})
        subcommand(**given, **{name: value})

    set_parameters(command, own, parameters)
    return command


def add(group: typer.Typer, name: str, function: Callable[..., None], **more: Any) -> None:
    """Add a function to a group as a subcommand, with the options that all accept."""
    own = inspect.signature(function, eval_str=True)
    shared = inspect.signature(general, eval_str=True).parameters
    parameters = [*own.parameters.values(), *shared.values()]

    @wraps(function)
    def command(**given: Any) -> None:
        function(**{key: value for key, value in given.items() if key not in shared})

    set_parameters(command, own, parameters)
    summary = (function.__doc__ or "").partition("\n")[0]
    group.command(name, cls=Command, short_help=summary, **more)(command)


def group(help: str, cls: type[TyperGroup] = Group) -> typer.Typer:
    """A group of subcommands, which also accepts the general options."""
    app = typer.Typer(help=help, cls=cls, no_args_is_help=True)
    app.callback(help=help)(general)
    return app
