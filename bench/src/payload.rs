//! The request bodies of the comparison, and the usage that the stub reports for each of them.
//!
//! A directive in the prompt determines the stub's answer, since prompt text survives every
//! gateway: `[[n=100,f=0,d=20]]` is a stream of n content chunks, the first after f milliseconds,
//! the others d milliseconds apart (f also delays an answer that is not streamed).

use serde_json::json;

/// Prompt tokens that the stub reports for every request.
pub const PROMPT_TOKENS: u64 = 120;
/// Completion tokens that the stub reports for an answer that is not streamed; a stream reports one
/// for each chunk.
pub const COMPLETION_TOKENS: u64 = 24;

/// The shape of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of content chunks of a stream.
    pub chunks: u64,
    /// Milliseconds before the first byte.
    pub first_ms: u64,
    /// Milliseconds between two content chunks.
    pub pace_ms: u64,
}

impl Plan {
    /// Returns a stream of `chunks` content chunks, `pace_ms` milliseconds apart.
    pub const fn stream(chunks: u64, pace_ms: u64) -> Plan {
        Plan {
            chunks,
            first_ms: 0,
            pace_ms,
        }
    }

    /// Parses the first directive of a request body; omitted values are 100 chunks without delay.
    pub fn of_body(body: &[u8]) -> Plan {
        let mut plan = Plan::stream(100, 0);
        let Some(start) = memchr::memmem::find(body, b"[[") else {
            return plan;
        };
        let inside = &body[start + 2..body.len().min(start + 64)];
        let Some(end) = memchr::memmem::find(inside, b"]]") else {
            return plan;
        };
        for pair in inside[..end].split(|byte| *byte == b',') {
            let Some((name, number)) = pair.split_first() else {
                continue;
            };
            let number = number
                .strip_prefix(b"=")
                .and_then(|text| std::str::from_utf8(text).ok());
            let Some(number) = number.and_then(|text| text.parse().ok()) else {
                continue;
            };
            match name {
                b'n' => plan.chunks = number,
                b'f' => plan.first_ms = number,
                b'd' => plan.pace_ms = number,
                _ => {}
            }
        }
        plan
    }
}

/// The kind of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A prompt of half a kilobyte, not streamed.
    Small,
    /// A conversation of 100 KB, not streamed.
    Large,
    /// The small prompt with a streamed answer.
    Stream(Plan),
    /// The small prompt in the format of messages, which the upstream does not support.
    Crossed,
}

impl Payload {
    /// Returns the JSON body for this model.
    pub fn body(self, model: &str) -> Vec<u8> {
        let system = json!({"role": "system", "content": "You are a helpful assistant."});
        let body = match self {
            Payload::Small => json!({
                "model": model,
                "messages": [system, {"role": "user", "content": prose(360)}],
                "max_tokens": 256,
                "temperature": 0.2,
            }),
            Payload::Crossed => json!({
                "model": model,
                "system": "You are a helpful assistant.",
                "messages": [{"role": "user", "content": prose(360)}],
                "max_tokens": 256,
                "temperature": 0.2,
            }),
            Payload::Large => {
                let turns = (0..25).map(|turn| {
                    let role = if turn % 2 == 0 { "user" } else { "assistant" };
                    json!({"role": role, "content": prose(3_840)})
                });
                let messages: Vec<_> = std::iter::once(system).chain(turns).collect();
                json!({"model": model, "messages": messages, "max_tokens": 256, "temperature": 0.2})
            }
            Payload::Stream(Plan {
                chunks,
                first_ms,
                pace_ms,
            }) => {
                let directive = format!("[[n={chunks},f={first_ms},d={pace_ms}]]{}", prose(340));
                json!({
                    "model": model,
                    "messages": [system, {"role": "user", "content": directive}],
                    "max_tokens": 256,
                    "temperature": 0.2,
                    "stream": true,
                })
            }
        };
        body.to_string().into_bytes()
    }

    /// Returns the path of the endpoint.
    pub fn path(self) -> &'static str {
        match self {
            Payload::Crossed => "/v1/messages",
            Payload::Small | Payload::Large | Payload::Stream(_) => "/v1/chat/completions",
        }
    }

    /// Returns the number of content chunks of a complete answer (0 when it is not streamed).
    pub fn chunks(self) -> u64 {
        match self {
            Payload::Small | Payload::Large | Payload::Crossed => 0,
            Payload::Stream(plan) => plan.chunks,
        }
    }

    /// Returns the prompt and completion tokens that the stub reports for it.
    pub fn tokens(self) -> (u64, u64) {
        match self {
            Payload::Small | Payload::Large | Payload::Crossed => (PROMPT_TOKENS, COMPLETION_TOKENS),
            Payload::Stream(plan) => (PROMPT_TOKENS, plan.chunks),
        }
    }
}

/// Generates about `length` bytes of words, with the escapes and the non-ASCII letters of real
/// text, the same at every call.
fn prose(length: usize) -> String {
    const WORDS: [&str; 16] = [
        "the",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "a",
        "lazy",
        "dog",
        "and",
        "says",
        "\"good morning\"",
        "to",
        "Zürich",
        "7",
        "twice.\n",
    ];
    let mut text = String::with_capacity(length + 16);
    let mut state = 12_345_u32;
    while text.len() < length {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push(' ');
        text.push_str(WORDS[(state >> 28) as usize]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_the_names_say() {
        let small = Payload::Small.body("stub-model").len();
        let large = Payload::Large.body("stub-model").len();
        assert!((400..700).contains(&small), "{small}");
        assert!((98_000..106_000).contains(&large), "{large}");
    }

    #[test]
    fn the_stub_reads_back_the_plan_that_the_payload_asked_for() {
        let plan = Plan {
            chunks: 7,
            first_ms: 3,
            pace_ms: 20,
        };
        assert_eq!(Plan::of_body(&Payload::Stream(plan).body("m")), plan);
        assert_eq!(Plan::of_body(b"[[d=5]]"), Plan::stream(100, 5));
        for plain in [&b"no directive"[..], b"[[n=1", b"[[", b"[[n=,=,,x]]"] {
            assert_eq!(Plan::of_body(plain), Plan::stream(100, 0));
        }
    }
}
