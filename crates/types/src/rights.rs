//! Rights of API keys: the models and the groups of endpoints that a key may use.

use std::sync::Arc;

/// A group of endpoints that a key may be limited to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Paths of the text formats, moderations and stored responses.
    Text,
    /// Paths below `/v1/embeddings`, and the embedding actions of models.
    Embeddings,
    /// Paths below `/v1/images`, except lists of templates.
    Images,
    /// Paths below `/v1/videos`, including compositions.
    Video,
    /// Paths below `/v1/audio`: speech and transcriptions.
    Audio,
    /// Paths below `/v1/decisions`, including calibrations.
    Decisions,
    /// Paths below `/v1/research` and `/v1/async`, `/v1/deep-research`, and research models on
    /// paths of other scopes.
    Research,
    /// Paths below `/v1/realtime`: voice sessions and live transcription.
    Realtime,
    /// Paths below `/v1/files`.
    Files,
    /// Batches. Each request of a batch also requires the scope of its endpoint.
    Batches,
    /// Reserved for GPU instances and clusters.
    Gpu,
    /// Reserved for hosted agents.
    Agents,
    /// Usage and balance of the account, and its saved chats.
    Account,
    /// The signing secret of webhooks.
    Webhooks,
}

impl Scope {
    /// All scopes, in the order in which lists contain them.
    pub const ALL: [Self; 14] = [
        Self::Text,
        Self::Embeddings,
        Self::Images,
        Self::Video,
        Self::Audio,
        Self::Decisions,
        Self::Research,
        Self::Realtime,
        Self::Files,
        Self::Batches,
        Self::Gpu,
        Self::Agents,
        Self::Account,
        Self::Webhooks,
    ];

    /// Returns the name used on the wire and in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Embeddings => "embeddings",
            Self::Images => "images",
            Self::Video => "video",
            Self::Audio => "audio",
            Self::Decisions => "decisions",
            Self::Research => "research",
            Self::Realtime => "realtime",
            Self::Files => "files",
            Self::Batches => "batches",
            Self::Gpu => "gpu",
            Self::Agents => "agents",
            Self::Account => "account",
            Self::Webhooks => "webhooks",
        }
    }

    /// Parses a name returned by [`Self::as_str`]; `None` for any other text.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u16);

impl Scopes {
    /// Whether the set contains a scope.
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Returns the scopes of the set, in the order of [`Scope::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

/// The models that a key may use: ids such as `acme/large`, and prefixes such as `acme/*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPatterns(Arc<[String]>);

impl ModelPatterns {
    /// Creates patterns. A pattern that ends with `/*` matches all ids that begin with its text
    /// before the asterisk; another pattern matches one id.
    pub fn new(patterns: Vec<String>) -> Self {
        Self(patterns.into())
    }

    /// Returns the patterns.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// Whether a pattern matches the canonical id of a model.
    pub fn matches(&self, id: &str) -> bool {
        self.0.iter().any(|pattern| matches(pattern, id))
    }
}

/// Whether a pattern matches the canonical id of a model; see [`ModelPatterns::new`].
pub fn matches(pattern: &str, id: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) if prefix.ends_with('/') => id.starts_with(prefix),
        _ => pattern == id,
    }
}

/// The rights of an API key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRights {
    /// Models that the key may use; `None` for all.
    pub models: Option<ModelPatterns>,
    /// Scopes of the key; `None` for all, including later ones.
    pub scopes: Option<Scopes>,
}

impl KeyRights {
    /// Whether the key may use the model with this canonical id.
    pub fn allow_model(&self, id: &str) -> bool {
        self.models.as_ref().is_none_or(|models| models.matches(id))
    }

    /// Whether the key may use the endpoints of a scope.
    pub fn allow_scope(&self, scope: Scope) -> bool {
        self.scopes.is_none_or(|scopes| scopes.contains(scope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_an_id_or_a_prefix() {
        for (pattern, id, expected) in [
            ("acme/large", "acme/large", true),
            ("acme/large", "acme/large-2", false),
            ("acme/large", "ACME/large", false),
            ("acme/*", "acme/large", true),
            ("acme/*", "acme/vendor/large", true),
            ("acme/*", "acme", false),
            ("acme/*", "acmes/large", false),
            ("acme/vendor/*", "acme/large", false),
            // An asterisk elsewhere has no meaning.
            ("acme*", "acme/large", false),
            ("acme/*", "acme/*", true),
            ("*", "acme/large", false),
            ("", "acme/large", false),
        ] {
            assert_eq!(matches(pattern, id), expected, "{pattern} {id}");
        }
    }

    #[test]
    fn rights_without_lists_allow_everything() {
        let all = KeyRights::default();
        assert!(all.allow_model("acme/large"));
        assert!(Scope::ALL.into_iter().all(|scope| all.allow_scope(scope)));
        let none = KeyRights {
            models: Some(ModelPatterns::new(Vec::new())),
            scopes: Some(Scopes::default()),
        };
        assert!(!none.allow_model("acme/large"));
        assert!(!Scope::ALL.into_iter().any(|scope| none.allow_scope(scope)));
    }

    #[test]
    fn each_scope_is_separate_and_has_a_name() {
        for scope in Scope::ALL {
            let one: Scopes = [scope].into_iter().collect();
            assert_eq!(one.iter().collect::<Vec<_>>(), [scope]);
            assert_eq!(Scope::parse(scope.as_str()), Some(scope));
        }
        let all: Scopes = Scope::ALL.into_iter().collect();
        assert_eq!(all.iter().collect::<Vec<_>>(), Scope::ALL);
        assert_eq!(Scope::parse("Text"), None);
    }
}
