//! A scripted HTTP/1.1 server on loopback: sees every byte, can misbehave at every point, ends with its owner.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or(serde_json::Value::Null)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Status, extra headers, body with its length.
    Answer(u16, Vec<(String, String)>, Vec<u8>),
    /// These bytes, then the connection closes.
    Raw(Vec<u8>),
    /// These bytes, then the connection is reset.
    RawThenReset(Vec<u8>),
    /// As `Answer`, after a pause.
    Late(Duration, u16, Vec<u8>),
    /// The connection is reset without an answer.
    Reset,
    /// No answer; waits until the client closes the connection.
    Silence,
    /// These bytes and nothing more; waits until the client closes the connection.
    Begun(Vec<u8>),
    /// Chunks of this many bytes without end, until the client goes away.
    Endless(usize),
}

pub fn json(status: u16, body: impl ToString) -> Reply {
    Reply::Answer(status, vec![("content-type".into(), "application/json".into())], body.to_string().into_bytes())
}

pub fn with(status: u16, headers: &[(&str, &str)], body: impl ToString) -> Reply {
    let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    Reply::Answer(status, headers, body.to_string().into_bytes())
}

type Script = dyn Fn(usize, &Seen) -> Reply + Send + Sync;

/// The server. Dropping it ends it.
pub struct Mock {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    closed: Arc<Mutex<usize>>,
    accept: JoinHandle<()>,
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.accept.abort();
    }
}

impl Mock {
    /// `script` gets the running number of the request (from 0) and the request.
    pub async fn start(script: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let closed: Arc<Mutex<usize>> = Arc::default();
        let script: Arc<Script> = Arc::new(script);
        let accept = tokio::spawn({
            let (seen, closed) = (seen.clone(), closed.clone());
            async move {
                // The set ends the connections when this task is aborted.
                let mut connections = tokio::task::JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    connections.spawn(serve(stream, script.clone(), seen.clone(), closed.clone()));
                }
            }
        });
        Self { port, seen, closed, accept }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// Waits until `n` clients have closed a connection that was kept silent or endless.
    pub async fn closed(&self, n: usize) -> bool {
        for _ in 0..250 {
            if *self.closed.lock().unwrap() >= n {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Script>, seen: Arc<Mutex<Vec<Seen>>>, closed: Arc<Mutex<usize>>) {
    let mut buffer = Vec::new();
    loop {
        let Some(request) = read_request(&mut stream, &mut buffer).await else { return };
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(request.clone());
            seen.len() - 1
        };
        let reply = script(number, &request);
        match reply {
            Reply::Answer(status, headers, body) => {
                if answer(&mut stream, status, &headers, &body).await.is_err() {
                    return;
                }
            }
            Reply::Late(pause, status, body) => {
                tokio::time::sleep(pause).await;
                if answer(&mut stream, status, &[], &body).await.is_err() {
                    return;
                }
            }
            Reply::Raw(bytes) => {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
                return;
            }
            Reply::RawThenReset(bytes) => {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.flush().await;
                tokio::time::sleep(Duration::from_millis(50)).await;
                return reset(stream);
            }
            Reply::Reset => return reset(stream),
            Reply::Silence | Reply::Begun(_) => {
                if let Reply::Begun(bytes) = &reply {
                    let _ = stream.write_all(bytes).await;
                    let _ = stream.flush().await;
                }
                let mut rest = [0; 64];
                while !matches!(stream.read(&mut rest).await, Ok(0) | Err(_)) {}
                *closed.lock().unwrap() += 1;
                return;
            }
            Reply::Endless(size) => {
                let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                if stream.write_all(head).await.is_ok() {
                    let chunk = [format!("{size:x}\r\n").as_bytes(), &vec![b'x'; size], b"\r\n"].concat();
                    while stream.write_all(&chunk).await.is_ok() {}
                }
                *closed.lock().unwrap() += 1;
                return;
            }
        }
    }
}

fn reset(stream: TcpStream) {
    // Closing with a zero linger time sends RST.
    let _ = stream.set_zero_linger();
    drop(stream);
}

async fn answer(stream: &mut TcpStream, status: u16, headers: &[(String, String)], body: &[u8]) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} X\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if status != 204 && status != 304 && !headers.iter().any(|(n, _)| n == "content-length") {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).await?;
    stream.flush().await
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Seen> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at;
        }
        fill(stream, buffer).await?;
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    buffer.drain(..head_end + 4);
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let header = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
    let mut body = Vec::new();
    if header("transfer-encoding").is_some_and(|v| v.contains("chunked")) {
        loop {
            let line_end = loop {
                if let Some(at) = buffer.windows(2).position(|w| w == b"\r\n") {
                    break at;
                }
                fill(stream, buffer).await?;
            };
            let size = usize::from_str_radix(String::from_utf8_lossy(&buffer[..line_end]).trim(), 16).ok()?;
            while buffer.len() < line_end + 2 + size + 2 {
                fill(stream, buffer).await?;
            }
            body.extend_from_slice(&buffer[line_end + 2..line_end + 2 + size]);
            buffer.drain(..line_end + 2 + size + 2);
            if size == 0 {
                break;
            }
        }
    } else {
        let length = header("content-length").and_then(|v| v.parse().ok()).unwrap_or(0);
        while buffer.len() < length {
            fill(stream, buffer).await?;
        }
        body = buffer.drain(..length).collect();
    }
    Some(Seen { method, target, headers, body })
}

async fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    let mut chunk = [0; 16 * 1024];
    match stream.read(&mut chunk).await {
        Ok(n) if n > 0 => {
            buffer.extend_from_slice(&chunk[..n]);
            Some(())
        }
        _ => None,
    }
}
