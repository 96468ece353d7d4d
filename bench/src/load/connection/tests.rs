use std::net::TcpListener;

use super::*;

/// Serves one connection with one canned answer, split into writes of `step` bytes, then closes;
/// returns the result of [`Connection`], and its tally.
fn exchange(answer: &'static [u8], step: usize, chunks: u64) -> (anyhow::Result<()>, Tally) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_nodelay(true).unwrap();
        let mut request = [0; 4];
        socket.read_exact(&mut request).unwrap();
        for chunk in answer.chunks(step) {
            socket.write_all(chunk).unwrap();
        }
    });
    let mut tally = Tally::new();
    let outcome = Connection::new(address).exchange(b"POST", now_ns(), Expected { chunks }, &mut tally);
    server.join().unwrap();
    (outcome, tally)
}

#[test]
fn answers_are_judged() {
    const WHOLE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n{\"choices\":[]}";
    const CLOSED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"choices\":[]}";
    const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    const CUT: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{\"choices\":[]}";
    const REFUSED: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 6\r\n\r\nslowly";
    const STREAM: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
        1b\r\ndata: t=0000000000000001;\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
    const UNENDED: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
        1b\r\ndata: t=0000000000000001;\n\n\r\n0\r\n\r\n";
    type Case = (&'static str, &'static [u8], u64, Result<(), &'static str>);
    let cases: [Case; 9] = [
        ("whole", WHOLE, 0, Ok(())),
        ("until close", CLOSED, 0, Ok(())),
        ("no choices", EMPTY, 0, Err("has no choices")),
        ("cut", CUT, 0, Err("closed in the middle")),
        ("refused", REFUSED, 0, Err("status 429: slowly")),
        ("stream", STREAM, 1, Ok(())),
        ("a chunk too few", STREAM, 2, Err("1 content chunks of 2")),
        ("no [DONE]", UNENDED, 1, Err("has no [DONE]")),
        ("not a stream", WHOLE, 1, Err("0 content chunks of 1")),
    ];
    for (name, answer, chunks, expected) in cases {
        for step in [1, 7, answer.len()] {
            let (outcome, tally) = exchange(answer, step, chunks);
            match (expected, outcome) {
                (Ok(()), Ok(())) => assert_eq!(tally.chunks, chunks, "{name}"),
                (Err(part), Err(error)) => assert!(format!("{error:#}").contains(part), "{name}: {error:#}"),
                (expected, outcome) => panic!("{name}, step {step}: {outcome:?} instead of {expected:?}"),
            }
        }
    }
}
