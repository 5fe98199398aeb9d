"""Starts the MCP server under the name of the package, so that `uvx pipefy-toolkit` works."""

import os
import subprocess
import sys
import sysconfig


def main() -> None:
    name = "pipefy-mcp-server" + (".exe" if os.name == "nt" else "")
    schemes = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    paths = [os.path.join(folder, name) for folder in schemes]
    path = next((path for path in paths if os.path.isfile(path)), None)
    if path is None:
        sys.exit(f"{name} is not in {schemes[0]}; install pipefy-toolkit again")
    arguments = [path, *sys.argv[1:]]
    if os.name == "nt":
        sys.exit(subprocess.run(arguments).returncode)
    os.execv(path, arguments)
