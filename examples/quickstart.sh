#!/bin/sh
# Set up an environment in .venv and show what tvmconv does: sh examples/quickstart.sh [--help]
set -eu
cd "$(dirname "$0")/.."
for word in "$@"; do
    case $word in
    -h | --help) exec "${PYTHON:-python3}" examples/quickstart.py --help ;;
    esac
done
EXTRAS=peers
. examples/environment.sh
exec "$VENV_PYTHON" -m examples.quickstart "$@"
