#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use super::*;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::DuplexStream;

fn zipped(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// An answer with this body, as it comes from a proxy's client: in pieces.
fn answer(encoding: &str, body: &[u8]) -> Answer {
    let pieces: Vec<Result<Bytes, io::Error>> = body.chunks(7).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    Answer(Response::builder().header(CONTENT_ENCODING, encoding).body(Either::Right(body)).unwrap())
}

#[tokio::test]
async fn a_body_is_unpacked_within_its_limit() {
    let text = b"{\"data\": 1}".repeat(50);
    let two_members = [zipped(&text[..100]), zipped(&text[100..])].concat();
    for (encoding, body) in [("identity", text.clone()), ("gzip", zipped(&text)), ("GZIP", two_members)] {
        assert_eq!(answer(encoding, &body).read(text.len()).await.unwrap(), text, "{encoding}");
        assert_eq!(answer(encoding, &body).read(text.len() - 1).await, Err(Lost::TooLarge), "{encoding}");
    }
    assert_eq!(answer("gzip", b"").read(9).await.unwrap_or_default(), Bytes::new());
    // A little that unfolds to a lot ends at the limit.
    let bomb = zipped(&vec![b' '; 20_000_000]);
    assert!(bomb.len() < 200_000);
    assert_eq!(answer("gzip", &bomb).read(1_000_000).await, Err(Lost::TooLarge));
}

#[tokio::test]
async fn damaged_compression_is_a_lost_answer() {
    let whole = zipped(b"{\"data\":{\"deleteCard\":{\"success\":true}}}");
    let mut flipped = whole.clone();
    let end = flipped.len() - 6;
    flipped[end] ^= 0xff;
    for body in [&whole[..whole.len() - 1], &whole[..12], b"{\"data\":1}", &flipped] {
        let lost = answer("gzip", body).read(1000).await.unwrap_err();
        let Lost::Connection { cause, sent: true } = lost else { panic!("{lost:?}") };
        assert!(cause.starts_with("its answer cannot be decompressed"), "{cause}");
    }
}

/// The client's error for a request to an HTTP/2 peer that does `end` with its stream.
async fn error_of(
    end: fn(h2::server::SendResponse<Bytes>, &mut h2::server::Connection<DuplexStream, Bytes>),
) -> hyper::Error {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let peer = tokio::spawn(async move {
        let mut connection = h2::server::handshake(theirs).await.unwrap();
        let (_, respond) = connection.accept().await.unwrap().unwrap();
        end(respond, &mut connection);
        while connection.accept().await.is_some() {}
    });
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(ours)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::post("http://localhost/graphql").body(Full::new(Bytes::new())).unwrap();
    let error = client.send_request(request).await.unwrap_err();
    connection.abort();
    peer.abort();
    error
}

#[tokio::test]
async fn only_what_the_peer_did_not_look_at_goes_out_again() {
    let refusing = error_of(|mut respond, _| respond.send_reset(h2::Reason::REFUSED_STREAM)).await;
    assert!(refused(&refusing), "{refusing:?}");
    for broken in [
        error_of(|mut respond, _| respond.send_reset(h2::Reason::INTERNAL_ERROR)).await,
        error_of(|mut respond, _| respond.send_reset(h2::Reason::CANCEL)).await,
        error_of(|_, connection| connection.abrupt_shutdown(h2::Reason::INTERNAL_ERROR)).await,
        // It leaves in peace, but it has taken this request.
        error_of(|_, connection| connection.abrupt_shutdown(h2::Reason::NO_ERROR)).await,
    ] {
        assert!(!refused(&broken), "{broken:?}");
    }
}

#[test]
fn a_cause_is_short_and_holds_no_url() {
    let inner = io::Error::other("reset by peer");
    assert_eq!(cause(&io::Error::other(inner)), "reset by peer");
    assert_eq!(cause(&io::Error::other("https://x.test/?token=1")), "the connection failed");
    assert_eq!(cause(&io::Error::other(" ")), "the connection failed");
}
