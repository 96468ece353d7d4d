//! Site filters: hosts and `host/path` patterns on URLs.

use tollgate_upstream::search::SearchFilters;

/// The site filters of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sites {
    include: Vec<Site>,
    exclude: Vec<Site>,
}

/// A host and the start of a path; both without slashes at their ends.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Site {
    host: String,
    path: String,
}

impl Sites {
    /// Returns the filters on sites; `None` if there are none.
    pub fn of(filters: &SearchFilters) -> Option<Self> {
        let parse = |patterns: &[String]| patterns.iter().map(|pattern| Site::parse(pattern)).collect();
        let has_filters = !filters.include.is_empty() || !filters.exclude.is_empty();
        has_filters.then(|| Self {
            include: parse(&filters.include),
            exclude: parse(&filters.exclude),
        })
    }

    /// Whether the filters permit the URL. A corpus is a host: `corpus://NAME/path` matches the
    /// patterns `NAME`, `corpus/NAME` and `corpus://NAME`.
    pub fn permit(&self, url: &str) -> bool {
        let location = Site::parse(url);
        let is_corpus = url.starts_with("corpus://");
        let matches = |site: &Site| {
            location.is_within(site)
                || (is_corpus
                    && site.host == "corpus"
                    && location.is_within(&Site::parse(site.path.trim_start_matches('/'))))
        };
        (self.include.is_empty() || self.include.iter().any(matches)) && !self.exclude.iter().any(matches)
    }
}

impl Site {
    /// Parses a URL or a pattern. Query, fragment, user and port are left out.
    fn parse(text: &str) -> Self {
        let text = text.trim();
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let host = authority.rsplit('@').next().unwrap_or_default();
        let host = match host.starts_with('[') {
            true => host.split_inclusive(']').next().unwrap_or_default(),
            false => host.split(':').next().unwrap_or_default(),
        };
        Self {
            host: host.trim_end_matches('.').to_lowercase(),
            path: path.trim_end_matches('/').to_owned(),
        }
    }

    /// Whether the host is the site's or a subdomain, and the path is the site's or below it.
    fn is_within(&self, site: &Site) -> bool {
        let is_below = |whole: &str, end: &str| {
            whole
                .strip_suffix(end)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let path = self.path.strip_prefix(site.path.as_str());
        !site.host.is_empty()
            && is_below(&self.host, &site.host)
            && path.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

#[cfg(test)]
mod tests;
