# Sourced by the two commands of the README: make .venv with the package and the extras named in
# $EXTRAS, once, and leave its Python in $VENV_PYTHON. Set PYTHON to choose an interpreter.
# shellcheck shell=sh

VENV=${TVMCONV_VENV:-.venv}
VENV_PYTHON=$VENV/bin/python
stamp=$VENV/.tvmconv-$EXTRAS

fail() {
    echo "tvmconv: $1" >&2
    exit 1
}

# before the downloads
command -v cc >/dev/null || command -v g++ >/dev/null || command -v clang >/dev/null ||
    fail "needs a C compiler to link models; on Debian and Ubuntu: apt install g++ python3-venv"

if [ ! -x "$VENV_PYTHON" ]; then
    found=
    for python in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python3.10}; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            found=$python
            break
        fi
    done
    [ -n "$found" ] || fail "needs Python 3.10 or newer; install it, or set PYTHON=/path/to/python3"
    echo "Creating $VENV with $("$found" --version)"
    "$found" -m venv "$VENV" >/dev/null || {
        rm -rf "$VENV"
        fail "cannot create $VENV; on Debian and Ubuntu: apt install python3-venv"
    }
fi

if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
    echo "Installing tvmconv and its dependencies (about 200 MB of downloads the first time)"
    "$VENV_PYTHON" -m pip install --quiet --disable-pip-version-check -e ".[$EXTRAS]" ||
        fail "installation failed; pip's own message is above"
    touch "$stamp"
fi
