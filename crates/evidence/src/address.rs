//! Addresses of sources: a canonical form for duplicates, and filters of sites.

#[cfg(test)]
mod tests;

use url::{Host, Url};

/// Schemes of sources that are not web pages. Their addresses have one form only.
const OTHER_SCHEMES: [&str; 3] = ["corpus", "file", "mcp"];

/// Query parameters that identify a visit, not a page, besides those that begin with `utm_`.
const TRACKING: [&str; 33] = [
    "_ga",
    "_gl",
    "_hsenc",
    "_hsmi",
    "dclid",
    "epik",
    "fbclid",
    "gad_campaignid",
    "gad_source",
    "gbraid",
    "gclid",
    "gclsrc",
    "igsh",
    "igshid",
    "li_fat_id",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "msclkid",
    "oly_anon_id",
    "oly_enc_id",
    "ref_src",
    "ref_url",
    "s_cid",
    "srsltid",
    "ttclid",
    "twclid",
    "vero_id",
    "wbraid",
    "wickedid",
    "yclid",
    "_openstat",
    "fb_action_ids",
];

/// Returns the canonical form of an address, the same for all addresses of a page that differ only
/// in their spelling: lower-case host without a final dot, no user, default port, fragment,
/// tracking parameters or final slash, and sorted parameters. Addresses of other sources than web
/// pages are unchanged. `None` if the address is malformed or has another scheme.
pub fn canonical(url: &str) -> Option<String> {
    let url = url.trim();
    let parsed = Url::parse(url).ok()?;
    if OTHER_SCHEMES.contains(&parsed.scheme()) {
        return Some(url.to_owned());
    }
    let host = web_host(&parsed)?;
    let port = parsed.port().map(|port| format!(":{port}")).unwrap_or_default();
    let path = parsed.path().trim_end_matches('/');
    let query = canonical_query(parsed.query().unwrap_or_default());
    Some(format!("{}://{host}{port}{path}{query}", parsed.scheme()))
}

fn canonical_query(query: &str) -> String {
    let name = |pair: &&str| pair.split('=').next().unwrap_or_default().to_ascii_lowercase();
    let is_tracking = |name: &str| name.starts_with("utm_") || TRACKING.contains(&name);
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<&str> = pairs.filter(|pair| !is_tracking(&name(pair))).collect();
    pairs.sort_by_key(name);
    let mark = if pairs.is_empty() { "" } else { "?" };
    format!("{mark}{}", pairs.join("&"))
}

/// Returns the host of an address in lower case, in the ASCII form of international names, without
/// a final dot. `None` if the address is malformed or has no host.
pub fn host(url: &str) -> Option<String> {
    let parsed = Url::parse(url.trim()).ok()?;
    let host = parsed.host_str()?.trim_end_matches('.').to_ascii_lowercase();
    (!host.is_empty()).then_some(host)
}

fn web_host(url: &Url) -> Option<String> {
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    let host = url.host_str()?.trim_end_matches('.');
    (!host.is_empty()).then(|| host.to_owned())
}

/// Whether a web page belongs to a site. The filter is a host, which includes its subdomains, or
/// `host/path`, which includes the paths below it. Only http and https addresses match.
pub fn site_matches(url: &str, filter: &str) -> bool {
    let (Ok(url), Some(filter)) = (Url::parse(url.trim()), parse_filter(filter)) else {
        return false;
    };
    let (Some(host), Some(site)) = (web_host(&url), web_host(&filter)) else {
        return false;
    };
    let has_port = filter.port().is_none() || filter.port() == url.port_or_known_default();
    has_port && is_within(&host, &site, &filter) && has_prefix(&url, &filter)
}

fn parse_filter(filter: &str) -> Option<Url> {
    let filter = filter.trim();
    let site = match filter.split_once("://") {
        Some(("http" | "https", site)) => site,
        Some(_) => return None,
        None => filter,
    };
    let site = site
        .strip_prefix("*.")
        .or_else(|| site.strip_prefix('.'))
        .unwrap_or(site);
    Url::parse(&format!("https://{site}")).ok()
}

/// Whether a host is the site or its subdomain. Addresses of machines have no subdomains.
fn is_within(host: &str, site: &str, filter: &Url) -> bool {
    let is_domain = matches!(filter.host(), Some(Host::Domain(_)));
    host == site || (is_domain && host.strip_suffix(site).is_some_and(|sub| sub.ends_with('.')))
}

/// Whether the path of a filter is a prefix, compared by decoded segments.
fn has_prefix(url: &Url, filter: &Url) -> bool {
    let segments = |url: &Url| -> Vec<Vec<u8>> {
        let parts = url.path().split('/').filter(|part| !part.is_empty());
        parts.map(decoded).collect()
    };
    segments(url).starts_with(&segments(filter))
}

/// Decodes `%XX`. Other text is unchanged.
fn decoded(segment: &str) -> Vec<u8> {
    let bytes = segment.as_bytes();
    let mut output = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digit = |place: usize| {
            bytes
                .get(at + place)
                .and_then(|&byte| char::from(byte).to_digit(16))
        };
        match (byte, digit(1), digit(2)) {
            (b'%', Some(high), Some(low)) => {
                output.extend(u8::try_from(high * 16 + low));
                at += 3;
            }
            _ => {
                output.push(byte);
                at += 1;
            }
        }
    }
    output
}
