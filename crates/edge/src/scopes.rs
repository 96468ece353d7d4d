//! Scopes that the paths of the public API require of a key.

use http::Method;
use tollgate_accounts::Caller;
use tollgate_types::{Error, Scope};

use crate::client_dialect::Action;

/// The scope that a request requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// Every key may make the request: it reads the catalog, a quote, or a job by its id.
    Nothing,
    /// The key must have this scope.
    One(Scope),
    /// The key must not be limited to scopes, because the path belongs to none.
    All,
}

use Requirement::{All, Nothing, One};

/// First segments of paths below `/v1/`, with the scope of all paths that begin with them and have
/// no entry in [`EXCEPTIONS`].
const FAMILIES: &[(&str, Requirement)] = &[
    ("account", One(Scope::Account)),
    ("async", One(Scope::Research)),
    ("audio", One(Scope::Audio)),
    ("batches", One(Scope::Batches)),
    ("chat", One(Scope::Text)),
    ("completions", One(Scope::Text)),
    ("decisions", One(Scope::Decisions)),
    ("deep-research", One(Scope::Research)),
    ("embeddings", One(Scope::Embeddings)),
    ("files", One(Scope::Files)),
    ("images", One(Scope::Images)),
    ("jobs", Nothing),
    ("media", Nothing),
    ("messages", One(Scope::Text)),
    ("moderations", One(Scope::Text)),
    ("playground", One(Scope::Account)),
    ("quote", Nothing),
    ("realtime", One(Scope::Realtime)),
    ("research", One(Scope::Research)),
    ("responses", One(Scope::Text)),
    ("systemone", One(Scope::Decisions)),
    ("templates", Nothing),
    ("videos", One(Scope::Video)),
];

/// Paths below `/v1/`, and the paths below them, that differ from their family.
const EXCEPTIONS: &[(&str, Requirement)] = &[
    ("account/webhook_secret", One(Scope::Webhooks)),
    ("images/templates", Nothing),
    ("messages/batches", One(Scope::Batches)),
    ("videos/compose/recipes", Nothing),
    ("videos/templates", Nothing),
];

/// Returns what a request requires.
pub fn requirement(method: &Method, path: &str) -> Requirement {
    let Some(path) = path
        .strip_prefix("/v1/")
        .or_else(|| path.strip_prefix("/v1beta/"))
    else {
        return All;
    };
    let is_below = |root: &str| {
        let rest = path.strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if is_below("models") && matches!(*method, Method::GET | Method::HEAD) {
        return Nothing;
    }
    let row = EXCEPTIONS.iter().chain(FAMILIES).find(|row| is_below(row.0));
    row.map_or_else(|| of_action(path), |row| row.1)
}

/// Returns what a call of a model requires whose path ends with an action.
fn of_action(path: &str) -> Requirement {
    match Action::of(&path.replace("%3A", ":").replace("%3a", ":")) {
        Some(Action::EmbedContent | Action::BatchEmbedContents) => One(Scope::Embeddings),
        Some(Action::GenerateContent | Action::StreamGenerateContent | Action::CountTokens) => {
            One(Scope::Text)
        }
        None => All,
    }
}

/// Returns an error if the caller's key lacks the scope of a request.
pub(crate) fn check(caller: &Caller, method: &Method, path: &str) -> Result<(), Error> {
    if caller.rights.scopes.is_none() {
        return Ok(());
    }
    match requirement(method, path) {
        Nothing => Ok(()),
        One(scope) => caller.check_scope(scope),
        All => Scope::ALL
            .into_iter()
            .try_for_each(|scope| caller.check_scope(scope)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_require_the_scope_of_their_family() {
        for (method, path, expected) in [
            (Method::POST, "/v1/chat/completions", One(Scope::Text)),
            (Method::POST, "/v1/async/chat/completions", One(Scope::Research)),
            (Method::GET, "/v1/responses", One(Scope::Text)),
            (Method::POST, "/v1/messages", One(Scope::Text)),
            (Method::GET, "/v1/messages/batches", One(Scope::Batches)),
            (Method::GET, "/v1/messages/batches/b/results", One(Scope::Batches)),
            (Method::POST, "/v1/messages/batchesx", One(Scope::Text)),
            (Method::GET, "/v1/account/usage", One(Scope::Account)),
            (
                Method::POST,
                "/v1/account/webhook_secret/rotate",
                One(Scope::Webhooks),
            ),
            (Method::GET, "/v1/images/templates", Nothing),
            (Method::POST, "/v1/images/generations", One(Scope::Images)),
            (Method::POST, "/v1/videos/compose", One(Scope::Video)),
            (Method::GET, "/v1/videos/compose/recipes", Nothing),
            (Method::GET, "/v1/models", Nothing),
            (Method::GET, "/v1/models/acme/large", Nothing),
            (
                Method::POST,
                "/v1/models/acme/large:generateContent",
                One(Scope::Text),
            ),
            (
                Method::POST,
                "/v1beta/models/large%3AembedContent",
                One(Scope::Embeddings),
            ),
            (
                Method::POST,
                "/v1/acme/large:batchEmbedContents",
                One(Scope::Embeddings),
            ),
            (Method::POST, "/v1beta/decisions", One(Scope::Decisions)),
            // An action that only decoding reveals requires all scopes.
            (Method::POST, "/v1/models/large:%65mbedContent", All),
            (Method::POST, "/v1/jobsx", All),
            (Method::GET, "/metrics", All),
        ] {
            assert_eq!(requirement(&method, path), expected, "{method} {path}");
        }
    }
}
