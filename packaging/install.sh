#!/bin/sh
# Installs pipefy and pipefy-mcp-server from an archive whose checksum is beside it:
#
#     sh install.sh --from https://HOST/FOLDER [--to DIR] [--version VERSION]
#
# It looks there for pipefy-VERSION-SYSTEM.tar.gz and that name with .sha256 behind it. Nothing is installed unless
# everything was fetched, the checksum fits and the program runs.
set -eu

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

from=""
to="${HOME:-}/.local/bin"
version="latest"
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || fail "$1 needs a value"
    case $1 in
        --from) from=$2 ;;
        --to) to=$2 ;;
        --version) version=$2 ;;
        *) fail "there is no option $1; see the head of this file" ;;
    esac
    shift 2
done
[ -n "$from" ] || fail "say where from: --from URL"
case $from in
    https://*) ;;
    http://127.0.0.1:* | http://localhost:*) ;;
    *) fail "$from is not https" ;;
esac
case $(uname -s)-$(uname -m) in
    Linux-x86_64) system=x86_64-unknown-linux-gnu ;;
    Linux-aarch64) system=aarch64-unknown-linux-gnu ;;
    Darwin-x86_64) system=x86_64-apple-darwin ;;
    Darwin-arm64) system=aarch64-apple-darwin ;;
    *) fail "there is no archive for $(uname -s) on $(uname -m)" ;;
esac

name=pipefy-$version-$system.tar.gz
work=$(mktemp -d) || fail "no folder for temporary files"
trap 'rm -rf "$work"' EXIT
fetch() {
    curl --fail --silent --show-error --location --output "$work/$1" "$from/$1" || fail "$from/$1 cannot be fetched"
}
fetch "$name"
fetch "$name.sha256"
wanted=$(cut -d ' ' -f 1 <"$work/$name.sha256")
if command -v sha256sum >/dev/null 2>&1; then
    found=$(sha256sum <"$work/$name" | cut -d ' ' -f 1)
else
    found=$(shasum -a 256 <"$work/$name" | cut -d ' ' -f 1)
fi
if [ -z "$wanted" ] || [ "$wanted" != "$found" ]; then
    fail "the checksum of $name does not fit; nothing was installed"
fi

mkdir "$work/unpacked"
tar -xzf "$work/$name" -C "$work/unpacked" || fail "$name cannot be unpacked"
[ -f "$work/unpacked/pipefy" ] || fail "$name holds no program pipefy"
chmod 755 "$work/unpacked/pipefy"
"$work/unpacked/pipefy" --version >/dev/null || fail "the program does not run on this machine"
mkdir -p "$to" || fail "$to cannot be made"
for program in pipefy pipefy-mcp-server; do
    if [ -f "$work/unpacked/$program" ]; then
        # In the folder itself, so that the last step is one rename.
        cp "$work/unpacked/$program" "$to/.$program.new" || fail "$to cannot be written"
        chmod 755 "$to/.$program.new"
        mv "$to/.$program.new" "$to/$program" || fail "$to/$program cannot be replaced"
        echo "installed $to/$program"
    fi
done
case :${PATH:-}: in
    *:"$to":*) ;;
    *) echo "hint: $to is not on PATH" >&2 ;;
esac
