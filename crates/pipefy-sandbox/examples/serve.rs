//! Serves a sandbox until interrupted: `serve [PORT] [DATA_FILE]`. With a data file that another process serves, it
//! only says where.

use pipefy_sandbox::{Data, SandboxOptions, attach_or_start};
use std::net::SocketAddr;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let data = arguments.next().map_or(Data::Memory, |path| Data::File(path.into()));
    let bind = SocketAddr::from(([127, 0, 0, 1], port));
    let attached = attach_or_start(SandboxOptions { bind, data, ..SandboxOptions::default() }).await?;
    eprintln!("{}", attached.url());
    for person in pipefy_sandbox::people() {
        eprintln!("{}  {} ({})", person.token, person.name, person.role);
    }
    if attached.serves() {
        tokio::signal::ctrl_c().await?;
        attached.shutdown().await;
    } else {
        eprintln!("served by another process");
    }
    Ok(())
}
