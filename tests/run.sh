#!/bin/sh
# Set up an environment in .venv and run the tests: sh tests/run.sh [pytest options]
set -eu
cd "$(dirname "$0")/.."
EXTRAS=test
. examples/environment.sh
exec "$VENV_PYTHON" -m pytest -q -n 2 --dist worksteal "$@"
