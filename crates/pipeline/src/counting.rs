//! Counting texts by a published tokenizer, away from the threads that serve requests.

use tokio::sync::Semaphore;
use tollgate_billing::CountedText;
use tollgate_types::Tokenizer;

use crate::Pipeline;

/// The most bytes of text that are counted for one request: more than the longest contexts hold, and some tenths of a
/// second of work.
pub const MOST_TEXT: usize = 4 << 20;

/// How many requests are counted at once; others wait.
const AT_ONCE: usize = 2;

/// Room for those that are counted.
pub(crate) fn room() -> Semaphore {
    Semaphore::new(AT_ONCE)
}

impl Pipeline {
    /// Counts texts; `None` when they are longer than [`MOST_TEXT`] together.
    pub async fn count_text(&self, tokenizer: Tokenizer, texts: Vec<String>) -> Option<CountedText> {
        let bytes: usize = texts.iter().map(String::len).sum();
        if bytes > MOST_TEXT {
            return None;
        }
        let _room = self.counting.acquire().await.ok()?;
        let counting = self.calls.spawn_blocking(move || CountedText {
            texts: texts.len() as u64,
            bytes: bytes as u64,
            tokens: texts
                .iter()
                .map(|text| tollgate_tokens::count(tokenizer, text))
                .sum(),
        });
        match counting.await {
            Ok(counted) => Some(counted),
            Err(error) => {
                tracing::error!(%error, "cannot count tokens");
                None
            }
        }
    }
}
