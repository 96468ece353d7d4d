//! Ids of tool calls. The format may leave them out; the common form matches results to calls by them. They are made
//! from where a call stands, so that the same conversation has the same ids every time.

/// The most that is taken of an answer's id: some providers bound ids of calls to 64 characters.
const MOST_OF_ID: usize = 44;

/// The calls of a conversation that wait for their results, oldest first.
#[derive(Debug, Default)]
pub(super) struct Open(Vec<(String, String)>);

impl Open {
    /// A call in the turn with this index, and the id that it has from now on.
    pub(super) fn call(&mut self, turn: usize, number: usize, id: Option<String>, name: &str) -> String {
        let id = id
            .filter(|id| !id.is_empty())
            .unwrap_or_else(|| format!("call_{turn}_{number}"));
        self.0.push((id.clone(), name.to_owned()));
        id
    }

    /// The id of the call that a result answers: that of its id, else the first one of its name.
    pub(super) fn answer(&mut self, id: Option<&str>, name: &str) -> Option<String> {
        let by_id = id.and_then(|id| self.0.iter().position(|(known, _)| known == id));
        let found = by_id.or_else(|| self.0.iter().position(|(_, known)| known == name))?;
        Some(self.0.remove(found).0)
    }
}

/// The id of a call in an answer whose provider gave it none.
pub(super) fn in_answer(response_id: &str, candidate: u32, number: usize) -> String {
    let fits = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let of_answer: String = response_id.chars().filter(fits).take(MOST_OF_ID).collect();
    format!("call_{of_answer}_{candidate}_{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_find_their_calls() {
        let mut open = Open::default();
        assert_eq!(open.call(1, 0, None, "f"), "call_1_0");
        assert_eq!(open.call(1, 1, None, "g"), "call_1_1");
        assert_eq!(open.call(1, 2, Some("x".to_owned()), "f"), "x");
        assert_eq!(open.answer(Some("x"), "f").as_deref(), Some("x"));
        assert_eq!(open.answer(None, "g").as_deref(), Some("call_1_1"));
        assert_eq!(open.answer(Some("unknown"), "f").as_deref(), Some("call_1_0"));
        assert_eq!(open.answer(None, "f"), None);
    }

    #[test]
    fn ids_are_words_of_bounded_length() {
        assert_eq!(in_answer("aB-1_/é", 0, 2), "call_aB-1__0_2");
        assert!(in_answer(&"x".repeat(200), 7, 99).len() <= 64);
    }
}
