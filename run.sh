exec env -i HOME=/tmp/w/play PATH=$PATH PIPEFY_KEYCHAIN_BACKEND=file /tmp/target-cli/debug/pipefy --sandbox --sandbox-data /tmp/w/play/data.db "$@"
