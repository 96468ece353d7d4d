//! Metadata of a page: its `meta` elements, linked data (JSON-LD), and stated dates.

use html5ever::tokenizer::Tag;
use serde_json::Value;
use tollgate_evidence::dates::parse_date;
use tollgate_types::Date;

use super::scan::attribute;

/// Maximum number of properties of a page that are read.
const MAX_PROPERTIES: usize = 500;
/// Maximum size of a property, in bytes.
const MAX_PROPERTY_BYTES: usize = 1_000;
/// Maximum size of all linked data, in bytes.
const MAX_LINKED_DATA_BYTES: usize = 512 << 10;
/// Maximum depth at which linked data is searched.
const MAX_LINKED_DATA_DEPTH: usize = 6;
/// Maximum number of authors that are listed.
const MAX_AUTHORS: usize = 5;

/// Properties with the title, best first. The `title` element comes last.
const TITLES: [&str; 5] = [
    "citation_title",
    "og:title",
    "dc.title",
    "dcterms.title",
    "twitter:title",
];
/// Properties with the author, best first.
const AUTHORS: [&str; 7] = [
    "citation_author",
    "author",
    "article:author",
    "dc.creator",
    "dcterms.creator",
    "parsely-author",
    "itemprop:author",
];
/// Properties with the publication date, best first.
const DATES: [&str; 20] = [
    "article:published_time",
    "og:article:published_time",
    "citation_publication_date",
    "citation_online_date",
    "citation_date",
    "itemprop:datepublished",
    "datepublished",
    "parsely-pub-date",
    "sailthru.date",
    "publish-date",
    "publishdate",
    "publication_date",
    "pubdate",
    "dcterms.issued",
    "dc.date.issued",
    "dcterms.created",
    "dcterms.date",
    "dc.date",
    "dc.date.created",
    "date",
];

/// Properties of a page as they were found.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// Names in lower case, and values.
    properties: Vec<(String, String)>,
    title: String,
    linked_data: String,
    language: Option<String>,
    canonical_url: Option<String>,
    /// First `datetime` of a `time` element.
    time: Option<String>,
}

/// Metadata of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub title: Option<String>,
    pub author: Option<String>,
    pub date: Option<Date>,
    pub language: Option<String>,
    pub canonical_url: Option<String>,
}

impl Metadata {
    /// Reads the attributes of an element.
    pub(super) fn element(&mut self, tag: &Tag) {
        let of = |name: &str| {
            let value = attribute(tag, name).map(str::trim);
            value.filter(|value| !value.is_empty() && value.len() <= MAX_PROPERTY_BYTES)
        };
        match &*tag.name {
            "html" => {
                self.language = self
                    .language
                    .take()
                    .or(of("lang").or(of("xml:lang")).map(str::to_owned))
            }
            "link" if of("rel").is_some_and(|rel| rel.eq_ignore_ascii_case("canonical")) => {
                self.canonical_url = self.canonical_url.take().or(of("href").map(str::to_owned));
            }
            "meta" => {
                let name = of("property").or(of("name")).or(of("http-equiv"));
                if let (Some(name), Some(value)) = (name, of("content")) {
                    self.property(name, value);
                }
            }
            "time" if self.time.is_none() => self.time = of("datetime").map(str::to_owned),
            _ => {}
        }
        let value = || of("content").or(of("datetime"));
        if let (Some(name), Some(value)) = (of("itemprop"), value()) {
            self.property(&format!("itemprop:{name}"), value);
        }
    }

    fn property(&mut self, name: &str, value: &str) {
        if self.properties.len() < MAX_PROPERTIES {
            self.properties
                .push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }

    /// Appends text of the `title` element.
    pub(super) fn title(&mut self, text: &str) {
        if self.title.len() + text.len() <= MAX_PROPERTY_BYTES {
            self.title.push_str(text);
        }
    }

    /// Appends text of a script with linked data.
    pub(super) fn linked_data(&mut self, text: &str) {
        if self.linked_data.len() + text.len() <= MAX_LINKED_DATA_BYTES {
            self.linked_data.push_str(text);
        }
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let properties = self.properties.iter();
        properties
            .filter(move |(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    fn first<'a>(&'a self, names: &'a [&'a str]) -> Option<&'a str> {
        names.iter().find_map(|name| self.values(name).next())
    }

    /// Interprets the properties. `today` completes dates without a year.
    pub(super) fn read(&self, today: Date) -> Found {
        // Several scripts follow each other without a separator.
        let documents = serde_json::Deserializer::from_str(&self.linked_data).into_iter::<Value>();
        let documents: Vec<Value> = documents.map_while(Result::ok).collect();
        let mut linked = Linked::default();
        documents.iter().for_each(|document| linked.read(document, 0));
        let title = self.title.trim();
        let date = |text: &str| Date::parse(text).or_else(|| parse_date(text, today));
        let dates = DATES.iter().flat_map(|name| self.values(name));
        let stated = dates.chain(linked.date.as_deref()).chain(self.time.as_deref());
        let language = self.language.as_deref().or(linked.language.as_deref());
        Found {
            title: self
                .first(&TITLES)
                .or(linked.title.as_deref())
                .or((!title.is_empty()).then_some(title))
                .map(str::to_owned),
            author: self.authors().or(linked.author),
            date: stated.into_iter().find_map(date),
            language: language
                .or(self.first(&["content-language", "og:locale", "dc.language"]))
                .map(str::to_owned),
            canonical_url: self
                .canonical_url
                .as_deref()
                .or(self.first(&["og:url"]))
                .map(str::to_owned),
        }
    }

    fn authors(&self) -> Option<String> {
        let is_name = |value: &&str| !value.contains("://");
        AUTHORS.iter().find_map(|name| {
            let names: Vec<&str> = self.values(name).filter(is_name).take(MAX_AUTHORS).collect();
            (!names.is_empty()).then(|| names.join(", "))
        })
    }
}

/// Linked data of the first document with a publication date or title.
#[derive(Default)]
struct Linked {
    title: Option<String>,
    author: Option<String>,
    date: Option<String>,
    language: Option<String>,
}

impl Linked {
    fn read(&mut self, value: &Value, depth: usize) {
        if depth > MAX_LINKED_DATA_DEPTH {
            return;
        }
        match value {
            Value::Array(values) => values.iter().for_each(|value| self.read(value, depth + 1)),
            Value::Object(members) => {
                let text = |name: &str| members.get(name)?.as_str().map(str::to_owned);
                if members.contains_key("datePublished") || members.contains_key("headline") {
                    self.title = self.title.take().or_else(|| text("headline"));
                    self.date = self.date.take().or_else(|| text("datePublished"));
                    self.language = self.language.take().or_else(|| text("inLanguage"));
                    self.author = self.author.take().or_else(|| author(members.get("author")?));
                }
                if let Some(graph) = members.get("@graph").or(members.get("mainEntity")) {
                    self.read(graph, depth + 1);
                }
            }
            _ => {}
        }
    }
}

/// Returns the names of authors: a name, a person, or a list of them.
fn author(value: &Value) -> Option<String> {
    let one = |value: &Value| {
        let name = value.get("name").unwrap_or(value).as_str()?.trim();
        (!name.is_empty() && !name.contains("://")).then(|| name.to_owned())
    };
    let names: Vec<String> = match value {
        Value::Array(values) => values.iter().filter_map(one).take(MAX_AUTHORS).collect(),
        value => one(value).into_iter().collect(),
    };
    (!names.is_empty()).then(|| names.join(", "))
}
