#!/bin/sh
# Tune the convolutions of all layer suites and example networks, for AVX2 and for AVX-512, on one
# and on two threads, into the logs that ship with the package. Needs a quiet machine with AVX-512,
# and some hours; stop it at any time, the same command goes on.
#
#   sh tuning_logs/regenerate.sh [TRIALS_PER_LAYER]
#
# Records that were there stay where nothing better is found; delete the .jsonl files first to
# start from nothing. PYTHON chooses the interpreter, MODELS a folder for the networks.
set -eu
cd "$(dirname "$0")/.."

trials=${1:-64}
python=${PYTHON:-python3}
models=${MODELS:-$(mktemp -d)}
[ -n "${MODELS:-}" ] || trap 'rm -rf "$models"' EXIT

machine='from tvmconv.machines.targets import resolve_machine; print(resolve_machine("native").isa)'
isa=$("$python" -c "$machine")
[ "$isa" = avx512 ] || {
    echo "tvmconv: this machine has $isa; the logs are made on one with avx512" >&2
    exit 1
}

set --
for suite in tvmconv/measuring/suites/*.txt; do
    # products of matrices have no convolution to tune
    grep -q '^gemm:' "$suite" || set -- "$@" --suite "$(basename "$suite" .txt)"
done
mkdir -p "$models"
for network in $("$python" -c 'from examples.networks import NETWORKS; print(*NETWORKS)'); do
    [ -e "$models/$network.onnx" ] ||
        "$python" -m examples.networks "$network" -o "$models/$network.onnx"
    set -- "$@" "$models/$network.onnx"
done

# a log is named after the preset; of this machine's own kind more is known than the preset says
for target in native x86-64-v3; do
    log=tuning_logs/x86-64-v3.jsonl
    [ "$target" = x86-64-v3 ] || log=tuning_logs/x86-64-v4.jsonl
    for threads in 1 2; do
        "$python" -m tvmconv tune "$@" --target "$target" --threads "$threads" \
            --trials-per-layer "$trials" --tuning-log "$log"
    done
    [ ! -e "$log" ] || "$python" -m tvmconv records prune "$log" --min-speedup 1.03
    rm -f "${log%.jsonl}.trials"
done
