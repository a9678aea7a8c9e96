#!/bin/sh
# Print the path of a Python that the locks fit (3.10 to 3.12, able to make environments), or say
# what to install. Every candidate is run, because a name on the PATH proves nothing: pyenv has
# shims for versions that are not selected. An argument is the only candidate: `make PYTHON=...`.
check='
import sys
sys.exit(0 if (3, 10) <= sys.version_info[:2] <= (3, 12) else 1)'
without_venv=

try() {
    command -v "$1" >/dev/null 2>&1 || return 1
    "$1" -c "$check" >/dev/null 2>&1 || return 1
    if ! "$1" -c 'import venv, ensurepip' >/dev/null 2>&1; then
        without_venv=${without_venv:-$1}
        return 1
    fi
    "$1" -c 'import sys; print(sys.executable)'
    exit 0
}

if [ -n "$1" ]; then
    try "$1"
else
    for candidate in python3 python3.12 python3.11 python3.10 python \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[012].*/bin/python; do
        try "$candidate"
    done
fi

if [ -n "$without_venv" ]; then
    version=$("$without_venv" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "$without_venv cannot make environments: its venv and ensurepip modules are missing." >&2
    echo "Install them (Debian, Ubuntu: apt-get install python$version-venv) and try again." >&2
    exit 1
fi
found=$(${1:-python3} --version 2>/dev/null) || found="no working ${1:-python3}"
echo "\
The course needs Python 3.10, 3.11 or 3.12; there is $found and nothing that fits.
Install one of them and try again, for example with
  Debian, Ubuntu  apt-get install python3.11 python3.11-venv
  pyenv           pyenv install 3.11
  conda           conda create -n course python=3.11, then conda activate course
  macOS           brew install python@3.11
or name one: make PYTHON=/path/to/python3.11 env" >&2
exit 1
