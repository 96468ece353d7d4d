//! Search queries that a model wrote.

#[cfg(test)]
mod tests;

use unicode_normalization::UnicodeNormalization;

use crate::script::{is_invisible, is_unspaced};

/// Maximum length of a query, in characters.
const MAX_QUERY_CHARS: usize = 200;

/// Maximum length of a word of a query, in characters. Longer ones may be encoded data.
const MAX_TOKEN_CHARS: usize = 40;

/// Returns a query on one line, shortened to 200 characters between words. `None` if it is empty or
/// could send data of its reader to a third party: if it contains a URL, an e-mail address or a
/// word of more than 40 characters.
pub fn safe_query(text: &str) -> Option<String> {
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let visible: String = visible.filter(|&c| !is_invisible(c)).nfkc().collect();
    let mut query = String::new();
    let mut chars = 0;
    for token in visible.split_whitespace() {
        if !is_safe_token(token) {
            return None;
        }
        let length = token.chars().count() + usize::from(!query.is_empty());
        if chars + length <= MAX_QUERY_CHARS {
            if !query.is_empty() {
                query.push(' ');
            }
            query.push_str(token);
        } else if query.is_empty() {
            query.extend(token.chars().take(MAX_QUERY_CHARS));
        }
        // Once a token does not fit, no later one is added.
        chars = chars.saturating_add(length);
    }
    query.chars().any(char::is_alphanumeric).then_some(query)
}

/// Whether a token without white space is no URL, no e-mail address and not too long.
pub(crate) fn is_safe_token(token: &str) -> bool {
    !is_long(token) && !is_address(&token.to_lowercase())
}

/// Whether a run of characters of spaced scripts exceeds the maximum.
fn is_long(token: &str) -> bool {
    let runs = token.split(is_unspaced);
    runs.into_iter()
        .any(|run| run.chars().nth(MAX_TOKEN_CHARS).is_some())
}

fn is_ipv4(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() == 4 && parts.iter().all(|part| part.parse::<u8>().is_ok())
}

/// Whether a token contains a URL or an e-mail address.
fn is_address(token: &str) -> bool {
    let schemes = [
        "://",
        "mailto:",
        "javascript:",
        "data:text",
        "data:image",
        "file:/",
    ];
    if schemes.iter().any(|scheme| token.contains(scheme)) || token.contains("www.") {
        return true;
    }
    let is_domain = |text: &str| {
        let name = text
            .rsplit(|c: char| !(c.is_alphanumeric() || c == '.' || c == '-'))
            .next();
        let suffix = name.and_then(|name| name.rsplit_once('.'));
        let is_name = suffix.is_some_and(|(name, suffix)| {
            !name.is_empty() && suffix.len() >= 2 && suffix.chars().all(char::is_alphabetic)
        });
        is_name || name.is_some_and(is_ipv4)
    };
    let is_email = token
        .split_once('@')
        .is_some_and(|(user, rest)| !user.is_empty() && rest.contains('.'));
    let has_path = token
        .split_once('/')
        .is_some_and(|(before, _)| is_domain(before.split(':').next().unwrap_or_default()));
    is_email || has_path || token.split_once('?').is_some_and(|(before, _)| is_domain(before))
}
