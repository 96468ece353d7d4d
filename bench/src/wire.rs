//! The HTTP/1.1 framing that the stub and the load tool need: the end of a body, and the payload of
//! a chunked one.

/// The framing of a message's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `content-length`.
    Length(usize),
    /// `transfer-encoding: chunked`.
    Chunked,
    /// The headers have neither.
    Unstated,
}

/// Determines the framing from the headers (RFC 9112 §6.3; chunked takes precedence over a length).
pub fn framing(headers: &[httparse::Header<'_>]) -> Framing {
    let mut found = Framing::Unstated;
    for header in headers {
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Framing::Chunked;
        }
        if header.name.eq_ignore_ascii_case("content-length")
            && let Some(length) = std::str::from_utf8(header.value)
                .ok()
                .and_then(|text| text.trim().parse().ok())
        {
            found = Framing::Length(length);
        }
    }
    found
}

/// Returns whether one header has exactly this value (ASCII case ignored on both sides).
pub fn has_header_value(headers: &[httparse::Header<'_>], name: &str, value: &str) -> bool {
    headers.iter().any(|header| {
        header.name.eq_ignore_ascii_case(name) && header.value.eq_ignore_ascii_case(value.as_bytes())
    })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Size,
    Extension,
    Data,
    DataEnd,
    TrailerStart,
    Trailer,
    End,
}

/// Decoder of one chunked body, fed with bytes of the socket.
#[derive(Debug, Default)]
pub struct ChunkedBody {
    at: At,
    left: usize,
}

impl ChunkedBody {
    /// Returns whether the last chunk and its trailer were read.
    pub fn ended(&self) -> bool {
        self.at == At::End
    }

    /// Returns the next payload bytes, taken from the front of `input`; `None` when `input` is used
    /// up or the body has ended (then the rest of `input` belongs to the next message).
    pub fn take<'a>(&mut self, input: &mut &'a [u8]) -> Option<&'a [u8]> {
        while let Some((&byte, rest)) = input.split_first() {
            match (self.at, byte) {
                (At::End, _) => return None,
                (At::Data, _) => return Some(self.take_data(input)),
                (At::Size | At::Extension, b'\n') => {
                    self.at = if self.left == 0 {
                        At::TrailerStart
                    } else {
                        At::Data
                    };
                }
                (At::Size, b';') => self.at = At::Extension,
                (At::Size, _) => {
                    if let Some(digit) = (byte as char).to_digit(16) {
                        self.left = self.left.saturating_mul(16).saturating_add(digit as usize);
                    }
                }
                (At::DataEnd, b'\n') => self.at = At::Size,
                (At::TrailerStart, b'\n') => self.at = At::End,
                (At::TrailerStart, b'\r') => {}
                (At::TrailerStart, _) => self.at = At::Trailer,
                (At::Trailer, b'\n') => self.at = At::TrailerStart,
                (At::Extension | At::DataEnd | At::Trailer, _) => {}
            }
            *input = rest;
        }
        None
    }

    fn take_data<'a>(&mut self, input: &mut &'a [u8]) -> &'a [u8] {
        let (data, rest) = input.split_at(self.left.min(input.len()));
        *input = rest;
        self.left -= data.len();
        if self.left == 0 {
            self.at = At::DataEnd;
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `wire` in chunks of `step` bytes; returns the payload and whether the body ended.
    fn decode(wire: &[u8], step: usize) -> (Vec<u8>, bool) {
        let mut body = ChunkedBody::default();
        let mut payload = Vec::new();
        for mut chunk in wire.chunks(step) {
            while let Some(data) = body.take(&mut chunk) {
                payload.extend_from_slice(data);
            }
        }
        (payload, body.ended())
    }

    #[test]
    fn a_chunked_body_reads_the_same_however_it_is_cut() {
        let wire = b"5\r\nhello\r\n1A;name=x\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nx-trailer: 1\r\n\r\n";
        for step in 1..wire.len() {
            assert_eq!(
                decode(wire, step),
                (b"helloabcdefghijklmnopqrstuvwxyz".to_vec(), true),
                "step {step}"
            );
        }
        assert!(!decode(&wire[..wire.len() - 1], 7).1);
    }

    #[test]
    fn bytes_after_the_end_are_left_alone() {
        let mut body = ChunkedBody::default();
        let mut input: &[u8] = b"1\r\nx\r\n0\r\n\r\nHTTP/1.1 200 OK";
        assert_eq!(body.take(&mut input), Some(&b"x"[..]));
        assert_eq!(body.take(&mut input), None);
        assert_eq!(input, b"HTTP/1.1 200 OK");
    }

    #[test]
    fn chunked_wins_over_a_length() {
        let header = |name, value: &'static str| httparse::Header {
            name,
            value: value.as_bytes(),
        };
        let length = header("Content-Length", "12");
        let chunked = header("Transfer-Encoding", "chunked");
        assert_eq!(framing(&[length]), Framing::Length(12));
        assert_eq!(framing(&[length, chunked]), Framing::Chunked);
        assert_eq!(framing(&[]), Framing::Unstated);
        assert!(has_header_value(
            &[header("Connection", "Close")],
            "connection",
            "close"
        ));
    }
}
