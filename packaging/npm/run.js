#!/usr/bin/env node
// Starts a program of the package for this system, with this process's input, output, signals and exit code.
"use strict";
const { spawn } = require("node:child_process");

function start(program) {
  const platform = `${process.platform}-${process.arch}`;
  const file = process.platform === "win32" ? `${program}.exe` : program;
  let path;
  try {
    path = require.resolve(`pipefy-toolkit-${platform}/bin/${file}`);
  } catch {
    console.error(
      `${program}: there is no build for ${platform} in this installation. ` +
        "Install without --no-optional, or build it from source with cargo.",
    );
    process.exit(1);
  }
  const child = spawn(path, process.argv.slice(2), { stdio: "inherit", windowsHide: true });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.on(signal, () => child.kill(signal));
  }
  child.on("error", (error) => {
    console.error(`${program}: ${error.message}`);
    process.exit(1);
  });
  child.on("exit", (code, signal) => {
    if (signal) {
      process.removeAllListeners(signal);
      process.kill(process.pid, signal);
    } else {
      process.exit(code);
    }
  });
}

module.exports = { start };
if (require.main === module) {
  start("pipefy-mcp-server");
}
