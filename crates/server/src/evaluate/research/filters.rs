//! Filters of a request, to find sources that they exclude. The check does not use the code of the
//! engine, so that an error of the engine is found.

use serde_json::{Map, Value};
use tollgate_types::Date;

/// Filters of a request on the sites and dates of sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filters {
    include: Vec<String>,
    exclude: Vec<String>,
    after: Option<Date>,
    before: Option<Date>,
}

impl Filters {
    /// Reads the filters of a request body.
    pub(super) fn of(body: &Map<String, Value>) -> Result<Self, String> {
        let sites: Vec<String> = match body.get("search_domain_filter") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(list)) => list.split(',').map(site).collect(),
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(site).collect(),
            Some(_) => return Err("'search_domain_filter' must be a text or an array of sites".to_owned()),
        };
        let (exclude, include): (Vec<String>, Vec<String>) = sites
            .into_iter()
            .filter(|site| !site.is_empty())
            .partition(|site| site.starts_with('-'));
        let date = |name: &str| match body.get(name).and_then(Value::as_str) {
            None => Ok(None),
            Some(text) => match Date::parse(text) {
                Some(date) => Ok(Some(date)),
                None => Err(format!("'{name}' must be a date such as 2026-03-31")),
            },
        };
        Ok(Self {
            include,
            exclude: exclude
                .iter()
                .map(|text| text.trim_start_matches('-').to_owned())
                .collect(),
            after: date("search_after_date_filter")?,
            before: date("search_before_date_filter")?,
        })
    }

    /// Whether the filters permit a source. A source without a date is permitted, because the
    /// search service may have filtered by date.
    pub(super) fn permit(&self, url: &str, date: Option<Date>) -> bool {
        let place = site(url);
        let is_within = |site: &String| is_within(&place, site);
        let by_site = (self.include.is_empty() || self.include.iter().any(is_within))
            && !self.exclude.iter().any(is_within);
        let is_older = date.zip(self.after).is_some_and(|(date, after)| date < after);
        let is_newer = date.zip(self.before).is_some_and(|(date, before)| date > before);
        by_site && !is_older && !is_newer
    }
}

/// Returns a URL or a site as `host/path`, without scheme, query and final slash. The sign of an
/// exclusion stays.
fn site(text: &str) -> String {
    let text = text.trim();
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = text.split_once('/').unwrap_or((text, ""));
    let host = host.to_lowercase();
    let whole = format!("{sign}{host}/{path}");
    whole.trim_end_matches('/').to_owned()
}

/// Whether a place is a site, a page below it, or on a subdomain of it.
fn is_within(place: &str, site: &str) -> bool {
    let split = |text: &str| {
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        (host.to_owned(), path.to_owned())
    };
    let ((host, path), (site_host, site_path)) = (split(place), split(site));
    let below = |rest: &str, sign: char| rest.is_empty() || rest.starts_with(sign);
    let of_host = host
        .strip_suffix(site_host.as_str())
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let of_path = site_path.is_empty()
        || path
            .strip_prefix(site_path.as_str())
            .is_some_and(|rest| below(rest, '/'));
    of_host && of_path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sources_outside_the_filters_are_found() {
        let day = |text: &str| Date::parse(text);
        for (filter, url, date, expected) in [
            (json!({}), "https://a.example/x", None, true),
            (
                json!({"search_domain_filter": "a.example"}),
                "https://www.A.example/x?y",
                None,
                true,
            ),
            (
                json!({"search_domain_filter": "a.example"}),
                "https://ba.example/",
                None,
                false,
            ),
            (
                json!({"search_domain_filter": ["a.example/docs"]}),
                "https://a.example/docsite",
                None,
                false,
            ),
            (
                json!({"search_domain_filter": ["a.example/docs"]}),
                "https://a.example/docs/1",
                None,
                true,
            ),
            (
                json!({"search_domain_filter": "a.example, -a.example/old"}),
                "https://a.example/old/1",
                None,
                false,
            ),
            (
                json!({"search_domain_filter": ["-corpus://demo/one"]}),
                "corpus://demo/one",
                None,
                false,
            ),
            (
                json!({"search_domain_filter": ["-corpus://demo/one"]}),
                "corpus://demo/one-two",
                None,
                true,
            ),
            (
                json!({"search_after_date_filter": "2020-01-02"}),
                "https://a.example",
                day("2020-01-01"),
                false,
            ),
            (
                json!({"search_after_date_filter": "2020-01-02"}),
                "https://a.example",
                day("2020-01-02"),
                true,
            ),
            (
                json!({"search_before_date_filter": "2020-01-02"}),
                "https://a.example",
                day("2020-01-03"),
                false,
            ),
            (
                json!({"search_before_date_filter": "2020-01-02"}),
                "https://a.example",
                None,
                true,
            ),
        ] {
            let filters = Filters::of(filter.as_object().unwrap()).unwrap();
            assert_eq!(filters.permit(url, date), expected, "{filter} {url} {date:?}");
        }
        for wrong in [
            json!({"search_domain_filter": 1}),
            json!({"search_after_date_filter": "3/31/2026"}),
        ] {
            assert!(Filters::of(wrong.as_object().unwrap()).is_err(), "{wrong}");
        }
    }
}
