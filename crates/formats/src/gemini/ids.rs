//! Ids of tool calls. The ids are optional in the format, but the common form needs them to match
//! results to calls. Missing ids are generated from the position of the call, so that the ids of a
//! conversation are the same in each request.

/// Maximum number of characters of a response id in a call id: some providers limit call ids to 64
/// characters.
const MAX_ID_LENGTH: usize = 44;

/// Calls of a conversation that have no result yet, oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingCalls(Vec<(String, String)>);

impl PendingCalls {
    /// Adds a call of the turn with this index and returns its id.
    pub(super) fn call(&mut self, turn: usize, number: usize, id: Option<String>, name: &str) -> String {
        let id = id
            .filter(|id| !id.is_empty())
            .unwrap_or_else(|| format!("call_{turn}_{number}"));
        self.0.push((id.clone(), name.to_owned()));
        id
    }

    /// Removes the call to which a result belongs and returns its id: the call with this id,
    /// otherwise the first call with this name. Returns `None` if there is no such call.
    pub(super) fn answer(&mut self, id: Option<&str>, name: &str) -> Option<String> {
        let by_id = id.and_then(|id| self.0.iter().position(|(known, _)| known == id));
        let found = by_id.or_else(|| self.0.iter().position(|(_, known)| known == name))?;
        Some(self.0.remove(found).0)
    }
}

/// Generates the id of a call for which the provider sent none, from the response id, the index of
/// the candidate and the number of the call.
pub(super) fn in_answer(response_id: &str, candidate: u32, number: usize) -> String {
    let fits = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let of_answer: String = response_id.chars().filter(fits).take(MAX_ID_LENGTH).collect();
    format!("call_{of_answer}_{candidate}_{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_find_their_calls() {
        let mut open = PendingCalls::default();
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
