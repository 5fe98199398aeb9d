cd /tmp/w/cli/crates/pipefy-cli; export RUST_BACKTRACE=0
C=$(ls -t /tmp/target-cli/debug/deps/cli-* | grep -v '\.d' | head -1); timeout 400 $C "$@"
