//! A query, and the values that the requests of several kinds derive from it.

use tollgate_types::Date;
use tollgate_upstream::{Recency, SearchQuery};

/// A query on a date.
pub(super) struct Ask<'q> {
    pub(super) query: &'q SearchQuery,
    pub(super) today: Date,
}

/// Limits of a query with operators.
pub(super) struct Limits {
    pub(super) max_chars: usize,
    pub(super) max_words: usize,
    /// Whether `site:` accepts a path after the host.
    pub(super) has_paths: bool,
}

impl Ask<'_> {
    /// Returns the number of hits to request, at most `max`.
    pub(super) fn max_hits(&self, max: u32) -> u32 {
        self.query.max_hits.clamp(1, max)
    }

    /// Returns the earliest publication date, from all date filters.
    pub(super) fn earliest(&self) -> Option<Date> {
        let filters = &self.query.filters;
        let recent = filters
            .recency
            .map(|recency| self.today.minus_days(recency.days()));
        filters.after.max(recent)
    }

    /// Returns the latest publication date.
    pub(super) fn latest(&self) -> Option<Date> {
        self.query.filters.before
    }

    /// Returns the maximum age of hits if it is the only date filter.
    pub(super) fn only_recency(&self) -> Option<Recency> {
        let filters = &self.query.filters;
        filters
            .recency
            .filter(|_| filters.after.is_none() && filters.before.is_none())
    }

    /// Whether the query has no date filter.
    pub(super) fn is_undated(&self) -> bool {
        !self.query.filters.restricts_date()
    }

    /// Returns the language without script and region in lower case, such as `pt` for `pt-BR`.
    pub(super) fn language(&self) -> Option<String> {
        let tag = self.query.filters.language.as_deref()?;
        let primary = tag.split(['-', '_']).next()?.to_ascii_lowercase();
        let is_code = (2..=3).contains(&primary.len()) && primary.bytes().all(|b| b.is_ascii_lowercase());
        is_code.then_some(primary)
    }

    /// Whether the language tag has this subtag after the language, in any case.
    pub(super) fn has_subtag(&self, subtag: &str) -> bool {
        let tag = self.query.filters.language.as_deref().unwrap_or_default();
        tag.split(['-', '_'])
            .skip(1)
            .any(|part| part.eq_ignore_ascii_case(subtag))
    }

    /// Returns the region of the language tag in lower case, such as `br` for `pt-BR`.
    pub(super) fn region(&self) -> Option<String> {
        let tag = self.query.filters.language.as_deref()?;
        let mut parts = tag.split(['-', '_']).skip(1);
        let region =
            parts.find(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_alphabetic()))?;
        Some(region.to_ascii_lowercase())
    }

    /// Returns the hosts of the sites to search, without duplicates.
    pub(super) fn included_hosts(&self) -> Vec<String> {
        let sites = &self.query.filters.include;
        unique(sites.iter().map(|site| split(site).0.to_owned()))
    }

    /// Returns the hosts that are excluded entirely. A site with a path excludes only a part of its
    /// host, so it is omitted.
    pub(super) fn excluded_hosts(&self) -> Vec<String> {
        let sites = self.query.filters.exclude.iter().map(|site| split(site));
        let whole = sites.filter(|(_, path)| path.is_empty());
        unique(whole.map(|(host, _)| host.to_owned()))
    }

    /// Returns `text` with `site:` and `-site:` operators for as many sites as the limits permit.
    /// The caller of the backend checks the sites of every hit.
    pub(super) fn with_sites(&self, text: &str, limits: &Limits) -> String {
        let mut out = text.to_owned();
        let mut words = text.split_whitespace().count();
        let mut chars = text.chars().count();
        let mut push = |operator: String| {
            let (more_words, more_chars) =
                (operator.split_whitespace().count(), operator.chars().count() + 1);
            let fits = words + more_words <= limits.max_words && chars + more_chars <= limits.max_chars;
            if fits {
                out.push(' ');
                out.push_str(&operator);
                words += more_words;
                chars += more_chars;
            }
            fits
        };
        let included = match limits.has_paths {
            true => unique(
                self.query
                    .filters
                    .include
                    .iter()
                    .map(|site| bare(site).to_owned()),
            ),
            false => self.included_hosts(),
        };
        let mut joint = "";
        for site in included {
            if push(format!("{joint}site:{site}")) {
                joint = "OR ";
            }
        }
        for site in self.excluded_hosts() {
            push(format!("-site:{site}"));
        }
        out
    }
}

/// Returns the site without a scheme and a leading wildcard.
fn bare(site: &str) -> &str {
    let site = site.trim();
    let site = site.split_once("://").map_or(site, |(_, site)| site);
    let site = site.strip_prefix("*.").unwrap_or(site);
    site.trim_start_matches('.').trim_end_matches('/')
}

/// Splits a site into its host and its path.
fn split(site: &str) -> (&str, &str) {
    let site = bare(site);
    site.split_once('/').unwrap_or((site, ""))
}

fn unique(sites: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for site in sites {
        if !site.is_empty() && !site.contains(char::is_whitespace) && !found.contains(&site) {
            found.push(site);
        }
    }
    found
}

/// Returns a date as `M/D/YYYY`.
pub(super) fn american(date: Date) -> String {
    format!("{}/{}/{}", date.month(), date.day(), date.year())
}
