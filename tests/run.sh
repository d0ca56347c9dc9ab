#!/bin/sh
# Set up an environment in .venv and run the tests: sh tests/run.sh [pytest options]
set -eu
cd "$(dirname "$0")/.."
EXTRAS=test
. examples/environment.sh
# hundreds of processes import the package, which is compiled once for all of them
unset PYTHONDONTWRITEBYTECODE
exec "$VENV_PYTHON" -m pytest -q -n 2 --dist worksteal "$@"
