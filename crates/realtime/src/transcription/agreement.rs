//! Interim transcripts: words are sent once two transcriptions of the growing audio agree on them.

/// Interim transcript of one turn.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    /// Words that were sent.
    sent: Vec<String>,
    /// Words of the last transcription.
    last: Vec<String>,
}

impl Agreement {
    /// Adds a transcription of all audio of the turn so far. Returns the text to append to what was
    /// sent, with its separating space; `None` if there is none.
    pub(super) fn add(&mut self, transcript: &str) -> Option<String> {
        let words: Vec<String> = transcript.split_whitespace().map(str::to_owned).collect();
        let agreed = agreed(&self.last, &words);
        self.last = words;
        if !self.last.starts_with(&self.sent) {
            return None;
        }
        let new = self.last.get(self.sent.len()..agreed)?.to_vec();
        self.append(new)
    }

    /// Ends the turn with its transcript. Returns the words that were not sent yet, if those that
    /// were sent are its beginning.
    pub(super) fn finish(&mut self, transcript: &str) -> Option<String> {
        let words: Vec<String> = transcript.split_whitespace().map(str::to_owned).collect();
        let rest = words.strip_prefix(&*self.sent)?.to_vec();
        self.append(rest)
    }

    fn append(&mut self, words: Vec<String>) -> Option<String> {
        if words.is_empty() {
            return None;
        }
        let space = if self.sent.is_empty() { "" } else { " " };
        let delta = format!("{space}{}", words.join(" "));
        self.sent.extend(words);
        Some(delta)
    }
}

/// Returns the number of first words that two transcriptions have in common.
fn agreed(one: &[String], other: &[String]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}

#[cfg(test)]
mod tests {
    use super::Agreement;

    #[test]
    fn words_are_sent_once_two_transcriptions_agree() {
        let mut agreement = Agreement::default();
        assert_eq!(agreement.add("the quick"), None);
        assert_eq!(agreement.add("the quick brown"), Some("the quick".to_owned()));
        assert_eq!(agreement.add("the quick brow n fox"), None);
        assert_eq!(agreement.add("the quick brown fox"), None);
        assert_eq!(
            agreement.add("the quick brown fox jumps"),
            Some(" brown fox".to_owned())
        );
        assert_eq!(
            agreement.finish("the quick brown fox jumps over"),
            Some(" jumps over".to_owned())
        );
    }

    #[test]
    fn sent_words_are_not_retracted() {
        let mut agreement = Agreement::default();
        agreement.add("a b");
        assert_eq!(agreement.add("a b c"), Some("a b".to_owned()));
        assert_eq!(agreement.add("x y"), None);
        assert_eq!(agreement.add("x y z"), None);
        assert_eq!(agreement.add("x y z"), None, "two sent words are in the way");
        assert_eq!(agreement.finish("x y z"), None);
        assert_eq!(Agreement::default().finish(""), None);
    }
}
