//! The server on standard input and output: one JSON-RPC message a line (`spec/mcp-server.md` section 8).
//!
//! The transport is our own because a bad line must be answered and must not end the connection, whatever it holds.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta as _, JsonRpcMessage, ProtocolVersion, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{RoleServer, serve_server_with_ct};
use rmcp::transport::{Transport, TransportAdapterIdentity};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::handler::Handler;
use crate::http::message::{self, Message};

/// Longest line that is read; the rest of a longer one is skipped.
const LONGEST_LINE: usize = 16 * 1024 * 1024;
/// Messages that wait to be written before their senders wait.
const WAITING: usize = 64;
/// Messages for a client that does not read them before no more of its requests are read.
const UNREAD: usize = 256;
/// After the end of input, the service loop hears of it this much later: what it has just sent is settled first. It settles
/// nothing more once it has heard, and a handler that waits for that would hold up the end.
const SETTLE: Duration = Duration::from_millis(30);
/// Bytes that are gathered before a write when more messages are waiting.
const GATHERED: usize = 64 * 1024;

/// Serves the person at this machine until the input ends (calls in flight are answered first, for up to 5 s) or
/// `stop` fires (calls in flight are cancelled and answered, for up to 2 s).
pub async fn serve(handler: Handler, stop: CancellationToken) {
    let (input, output) = rmcp::transport::io::stdio_pipes();
    serve_on(handler, input, output, stop).await;
}

/// Like [`serve`], on any pair of streams.
pub async fn serve_on<R, W>(handler: Handler, input: R, output: W, stop: CancellationToken)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let input_end = CancellationToken::new();
    let transport = Lines::new(input, output, input_end.clone());
    let handler = handler.until(input_end);
    match serve_server_with_ct::<_, _, _, TransportAdapterIdentity>(handler, transport, stop).await {
        Ok(service) => {
            if let Err(error) = service.waiting().await {
                tracing::error!(%error, "the connection's task failed");
            }
        }
        // Ended before a session began: by the client, or by a signal. Neither is an error.
        Err(error) => tracing::debug!(%error, "no session was opened"),
    }
}

/// The two lives a connection can have; the first request decides, and there is no crossing over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    /// Opened by `initialize`.
    Handshake,
    /// Opened by a request that says itself what it is.
    Envelopes,
}

/// Why a message could not be written.
#[derive(Debug, thiserror::Error)]
#[error("the output is closed")]
struct OutputClosed;

/// One line to write; the sender hears when it was.
type Outgoing = (Bytes, Option<oneshot::Sender<()>>);

struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    /// The rest of a line that was too long is being skipped.
    skipping: bool,
    /// Set by the request that opens the session; before it, notifications have no meaning.
    era: Option<Era>,
    /// Ids of requests that were not answered yet.
    running: HashSet<RequestId>,
    /// When the end of input is told.
    end: Option<Instant>,
    /// An answer of the transport's own, until there is room for it.
    own: Option<Bytes>,
    output: Option<mpsc::Sender<Outgoing>>,
    /// Messages handed over and not yet written. The service loop hands over as many as it has, each in a task of its own.
    unread: watch::Sender<usize>,
    writer: Option<JoinHandle<()>>,
    input_end: CancellationToken,
}

/// One message that waits for the client to read it.
struct Unread(watch::Sender<usize>);

impl Unread {
    fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

enum Line {
    /// A whole line is in the buffer.
    Whole,
    /// A line that is longer than allowed; its beginning is gone.
    TooLong,
    /// No more input. What stood before it without a line end is in the buffer.
    End,
}

impl<R: AsyncRead + Send + Unpin + 'static> Lines<R> {
    fn new<W: AsyncWrite + Send + Unpin + 'static>(input: R, output: W, input_end: CancellationToken) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        Self {
            input: BufReader::with_capacity(GATHERED, input),
            line: Vec::new(),
            skipping: false,
            era: None,
            running: HashSet::new(),
            end: None,
            own: None,
            output: Some(sender),
            unread: watch::Sender::new(0),
            writer: Some(tokio::spawn(write(output, receiver))),
            input_end,
        }
    }

    /// Reads up to the end of a line. May be dropped and called again: nothing between an await and the next is lost.
    async fn read_line(&mut self) -> io::Result<Line> {
        loop {
            let chunk = self.input.fill_buf().await?;
            if chunk.is_empty() {
                return Ok(Line::End);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(chunk.len(), |at| at + 1);
            let fits = self.line.len() + taken <= LONGEST_LINE;
            let too_long = !self.skipping && !fits;
            if !self.skipping && fits {
                self.line.extend_from_slice(chunk.get(..taken).unwrap_or_default());
            } else if too_long {
                self.line = Vec::new();
                self.skipping = true;
            }
            self.input.consume(taken);
            let skipped = self.skipping;
            if end.is_some() {
                self.skipping = false;
            }
            if too_long {
                return Ok(Line::TooLong);
            }
            if end.is_some() && !skipped {
                return Ok(Line::Whole);
            }
        }
    }

    /// The next message for the service loop, or nothing when the line holds none for it.
    fn take(&mut self) -> Option<ClientJsonRpcMessage> {
        let read = read(&self.line);
        self.line.clear();
        // A huge line must not hold its memory for the rest of the session.
        self.line.shrink_to(GATHERED);
        match read {
            Read::Nothing => None,
            Read::Refused(answer) => {
                self.own = Some(answer);
                None
            }
            Read::Message(message) => {
                if let Some(answer) = crossing(self.era, &message) {
                    self.own = Some(answer);
                    return None;
                }
                match &*message {
                    JsonRpcMessage::Request(request) if !self.running.insert(request.id.clone()) => {
                        // Under the id itself, the client would take it for the answer to the other one.
                        let data = json!({ "id": request.id.clone().into_json_value() });
                        let message = "Invalid request: another request with this id is still running";
                        self.own = Some(refusal_with(-32600, message, None, Some(data)));
                        return None;
                    }
                    JsonRpcMessage::Notification(notification) => {
                        // What is cancelled is not answered.
                        if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                            && let Some(id) = &cancelled.params.request_id
                        {
                            self.running.remove(id);
                        }
                    }
                    _ => {}
                }
                self.era = self.era.or_else(|| opens(&message));
                let request = matches!(*message, JsonRpcMessage::Request(_));
                (self.era.is_some() || request).then_some(*message)
            }
        }
    }

    fn ended(&mut self) {
        self.input_end.cancel();
        self.end = Some(Instant::now() + SETTLE);
    }

    /// Puts an own answer into the queue.
    async fn answer(&mut self) -> Result<(), OutputClosed> {
        if self.own.is_some() {
            let output = self.output.as_ref().ok_or(OutputClosed)?;
            let room = output.reserve().await.map_err(|_| OutputClosed)?;
            if let Some(answer) = self.own.take() {
                room.send((answer, None));
            }
        }
        Ok(())
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Transport<RoleServer> for Lines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = answered {
            self.running.remove(id);
        }
        let output = self.output.clone();
        let unread = Unread::new(&self.unread);
        async move {
            let _until_written = unread;
            let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let (written, hears) = oneshot::channel();
            output.ok_or_else(closed)?.send((line.into(), Some(written))).await.map_err(|_| closed())?;
            hears.await.map_err(|_| closed())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            self.answer().await.ok()?;
            if let Some(end) = self.end {
                tokio::time::sleep_until(end).await;
                return None;
            }
            let gone = self.output.clone()?;
            let mut unread = self.unread.subscribe();
            let line = tokio::select! {
                line = async {
                    // A client that does not read its answers makes itself wait, and nothing piles up here.
                    let _open = unread.wait_for(|count| *count < UNREAD).await.is_ok();
                    self.read_line().await
                } => line,
                // Nobody reads the answers any more.
                () = gone.closed() => return None,
            };
            match line {
                Ok(Line::Whole) => {
                    if let Some(message) = self.take() {
                        return Some(message);
                    }
                }
                Ok(Line::TooLong) => self.own = Some(refusal(-32600, "Message too long", None)),
                Ok(Line::End) => {
                    if !self.line.is_empty() {
                        if let Some(message) = self.take() {
                            return Some(message);
                        }
                        continue;
                    }
                    self.ended();
                }
                Err(error) => {
                    tracing::error!(%error, "standard input cannot be read");
                    self.ended();
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.input_end.cancel();
        drop(self.output.take());
        if let Some(writer) = self.writer.take() {
            // Ends when what was queued is written, or cannot be.
            let _ended = writer.await;
        }
        Ok(())
    }
}

/// Writes lines in their order, several at once when several wait.
async fn write<W: AsyncWrite + Unpin>(mut output: W, mut queue: mpsc::Receiver<Outgoing>) {
    let mut gathered = Vec::new();
    let mut senders = Vec::new();
    while let Some((line, sender)) = queue.recv().await {
        gathered.clear();
        gathered.extend_from_slice(&line);
        senders.extend(sender);
        while gathered.len() < GATHERED
            && let Ok((line, sender)) = queue.try_recv()
        {
            gathered.extend_from_slice(&line);
            senders.extend(sender);
        }
        if output.write_all(&gathered).await.is_err() || output.flush().await.is_err() {
            // Dropping the queue tells everybody, and ends the session.
            return;
        }
        gathered.shrink_to(GATHERED);
        for sender in senders.drain(..) {
            let _gone = sender.send(());
        }
    }
}

/// The era that this message opens, if it opens the session.
fn opens(message: &ClientJsonRpcMessage) -> Option<Era> {
    let JsonRpcMessage::Request(request) = message else { return None };
    match &request.request {
        ClientRequest::InitializeRequest(_) => Some(Era::Handshake),
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => None,
        other => {
            let meta = other.get_meta();
            let complete = meta.missing_required_keys(&ProtocolVersion::NO_INITIALIZE).is_empty()
                && meta.protocol_version().is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version));
            complete.then_some(Era::Envelopes)
        }
    }
}

/// The answer to a request of the other era.
fn crossing(era: Option<Era>, message: &ClientJsonRpcMessage) -> Option<Bytes> {
    let JsonRpcMessage::Request(request) = message else { return None };
    match (era?, &request.request) {
        (Era::Envelopes, ClientRequest::InitializeRequest(initialize)) => {
            let data = json!({
                "supported": [ProtocolVersion::NO_INITIALIZE.as_str()],
                "requested": initialize.params.protocol_version.as_str(),
            });
            Some(refusal_with(-32022, "Unsupported protocol version", Some(&request.id), Some(data)))
        }
        (Era::Handshake, other)
            if other.get_meta().protocol_version().is_some_and(|version| version >= ProtocolVersion::NO_INITIALIZE) =>
        {
            Some(refusal(-32600, "This connection was opened with initialize", Some(&request.id)))
        }
        _ => None,
    }
}

pub(crate) enum Read {
    /// Nothing to do: a blank line, or a notification without meaning.
    Nothing,
    /// No message: this is the answer.
    Refused(Bytes),
    Message(Box<ClientJsonRpcMessage>),
}

/// Reads one line.
pub(crate) fn read(line: &[u8]) -> Read {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Read::Nothing;
    }
    if let Ok(message @ Message::Request { .. }) = message::read(line)
        && let Ok(built) = message::build(line, &message)
    {
        return Read::Message(Box::new(built));
    }
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return Read::Refused(refusal(-32700, "Parse error", None));
    };
    let Value::Object(mut object) = value else {
        return Read::Refused(refusal(-32602, "Not one JSON-RPC message", None));
    };
    let id = object.get("id").and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
    let refused = |id: &Option<RequestId>| Read::Refused(refusal(-32602, "Not one JSON-RPC message", id.as_ref()));
    let notification = id.is_none();
    match object.get("method") {
        _ if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") => return refused(&id),
        Some(Value::String(_)) => {
            // An id that cannot be one makes a notification, which is never answered.
            if notification {
                object.remove("id");
            }
        }
        None if id.is_some() && (object.contains_key("result") || object.contains_key("error")) => {}
        _ => return refused(&id),
    }
    match serde_json::from_value::<ClientJsonRpcMessage>(Value::Object(object)) {
        Ok(message) => Read::Message(Box::new(message)),
        Err(_) if notification => Read::Nothing,
        Err(_) => refused(&id),
    }
}

/// An error of the transport's own, as one line.
fn refusal(code: i64, message: &str, id: Option<&RequestId>) -> Bytes {
    refusal_with(code, message, id, None)
}

fn refusal_with(code: i64, message: &str, id: Option<&RequestId>, data: Option<Value>) -> Bytes {
    let id = id.map_or(Value::Null, |id| id.clone().into_json_value());
    let mut error = json!({ "code": code, "message": message });
    if let (Some(data), Some(error)) = (data, error.as_object_mut()) {
        error.insert("data".to_owned(), data);
    }
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "error": error })).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn kind(line: &str) -> String {
        match read(line.as_bytes()) {
            Read::Nothing => "nothing".to_owned(),
            Read::Refused(answer) => {
                let answer: Value = serde_json::from_slice(&answer).unwrap();
                format!("{} {}", answer["error"]["code"], answer["id"])
            }
            Read::Message(message) => match *message {
                JsonRpcMessage::Request(request) => format!("request {}", request.id.into_json_value()),
                JsonRpcMessage::Notification(_) => "notification".to_owned(),
                JsonRpcMessage::Response(_) => "answer".to_owned(),
                JsonRpcMessage::Error(_) => "error".to_owned(),
            },
        }
    }

    #[test]
    fn lines_are_told_apart() {
        for (line, wanted) in [
            ("", "nothing"),
            ("  \r", "nothing"),
            ("{\"jsonrpc\":", "-32700 null"),
            ("Content-Length: 12", "-32700 null"),
            ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r", "request 1"),
            ("[]", "-32602 null"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "-32602 null"),
            ("7", "-32602 null"),
            ("{}", "-32602 null"),
            (r#"{"jsonrpc":"1.0","id":5,"method":"ping"}"#, "-32602 5"),
            (r#"{"jsonrpc":"2.0","id":"a","method":7}"#, "-32602 \"a\""),
            (r#"{"jsonrpc":"2.0","id":-1,"method":"ping"}"#, "request -1"),
            (r#"{"jsonrpc":"2.0","id":9007199254740992,"method":"ping"}"#, "request 9007199254740992"),
            (r#"{"jsonrpc":"2.0","id":"1","method":"ping"}"#, "request \"1\""),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "notification"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "notification"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"no/such","params":{}}"#, "request 1"),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "notification"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}"#, "answer"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}"#, "error"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "-32602 1"),
        ] {
            assert_eq!(kind(line), wanted, "{line}");
        }
    }

    #[tokio::test]
    async fn a_line_without_end_is_capped_and_the_next_one_works() {
        let mut input = vec![b'x'; LONGEST_LINE + 10];
        input.extend_from_slice(b"\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
        let (mut theirs, ours) = tokio::io::duplex(4096);
        let mut lines = Lines::new(std::io::Cursor::new(input), ours, CancellationToken::new());
        let message = lines.receive().await.unwrap();
        assert!(matches!(message, JsonRpcMessage::Request(_)));
        assert!(lines.line.capacity() <= GATHERED);
        lines.close().await.unwrap();
        let mut answers = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut theirs, &mut answers).await.unwrap();
        assert_eq!(answers.lines().count(), 1);
        assert!(answers.contains("-32600") && answers.contains("\"id\":null"), "{answers}");
    }

    #[tokio::test]
    async fn an_id_that_is_still_running_is_refused_and_free_afterwards() {
        let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
        let text = r#"{"jsonrpc":"2.0","id":"7","method":"tools/list"}"#;
        let start = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
        let input = [start, call, call, text, call, cancel, call].map(|line| format!("{line}\n")).concat();
        let (mut theirs, ours) = tokio::io::duplex(64 * 1024);
        let mut lines = Lines::new(std::io::Cursor::new(input), ours, CancellationToken::new());
        let mut taken = Vec::new();
        for _ in 0..3 {
            let JsonRpcMessage::Request(request) = lines.receive().await.unwrap() else { panic!("no request") };
            taken.push(request.id.into_json_value());
        }
        assert_eq!(taken, [json!(0), json!(7), json!("7")]);
        // An answer frees its id, and so does a cancellation.
        let answer = json!({"jsonrpc": "2.0", "id": 7, "result": {}});
        lines.send(serde_json::from_value(answer).unwrap()).await.unwrap();
        assert!(matches!(lines.receive().await.unwrap(), JsonRpcMessage::Request(_)));
        assert!(matches!(lines.receive().await.unwrap(), JsonRpcMessage::Notification(_)));
        assert!(matches!(lines.receive().await.unwrap(), JsonRpcMessage::Request(_)));
        lines.close().await.unwrap();
        let mut answers = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut theirs, &mut answers).await.unwrap();
        let refused: Vec<Value> = answers
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|answer| answer.get("error").is_some())
            .collect();
        assert_eq!(refused.len(), 1, "{answers}");
        assert_eq!((&refused[0]["id"], &refused[0]["error"]["data"]["id"]), (&Value::Null, &json!(7)));
    }
}
