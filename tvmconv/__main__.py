"""``python -m tvmconv``, and the entry point of the command ``tvmconv``."""

from __future__ import annotations

import io
import os
import signal
import sys


def main() -> None:
    """Run the command line. Ctrl-C prints nothing, also while modules are imported."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, as by ``>&-``
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # a file's name need not be text in the terminal's encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        from tvmconv.cli.main import main as run_command

        run_command()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
