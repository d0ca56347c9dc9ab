"""``python -m tvmconv``."""

from __future__ import annotations

from tvmconv.cli.main import main

if __name__ == "__main__":
    main()
