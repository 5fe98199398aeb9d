//! Serves a sandbox until interrupted: `serve [PORT] [DATA_FILE]`.

use pipefy_sandbox::{Data, Sandbox, SandboxOptions};
use std::net::SocketAddr;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let data = arguments.next().map_or(Data::Memory, |path| Data::File(path.into()));
    let bind = SocketAddr::from(([127, 0, 0, 1], port));
    let sandbox = Sandbox::start(SandboxOptions { bind, data, ..SandboxOptions::default() }).await?;
    eprintln!("{}", sandbox.url());
    for person in pipefy_sandbox::people() {
        eprintln!("{}  {} ({})", person.token, person.name, person.role);
    }
    tokio::signal::ctrl_c().await?;
    sandbox.shutdown().await;
    Ok(())
}
