//! Assembles the result of a provider's report: its text with numbered citations, and the places of
//! each citation and claim. Places in results count code points.

use serde_json::{Value, json};
use tollgate_evidence::text::CharText;
use tollgate_types::Date;
use tollgate_upstream::ProviderReport;

use super::super::payload::Source;
use super::super::report::{self, source_id};
use super::evidence::{Page, Quote};
use super::text::{MarkedSection, MarkedText};

/// Flag of a source that the gateway could not read.
const UNREAD: &str = "unread";
/// Reason of an unverified claim.
const UNCONFIRMED: &str = "no cited page that could be read confirms the statement";

/// A document of the provider's list, and its stored text if the gateway could read it.
pub(super) struct ListedSource {
    pub(super) number: u32,
    pub(super) url: String,
    pub(super) title: String,
    pub(super) date: Option<Date>,
    pub(super) excerpt: Option<String>,
    pub(super) stored: Option<(Source, String)>,
}

/// A report with its citations.
pub(super) struct CitedReport {
    /// Title and text of each section, in order. Together, the texts are the report.
    pub(super) sections: Vec<(String, String)>,
    pub(super) result: Value,
}

/// A citation of the report.
struct Citation {
    /// Position in the list of sources.
    source: usize,
    /// `None` if the page does not confirm the statement, or could not be read.
    quote: Option<Quote>,
    start: u64,
    end: u64,
}

/// A statement of the report with its citations.
struct Claim<'t> {
    text: &'t str,
    start: u64,
    end: u64,
    citations: Vec<usize>,
}

/// A report while it is assembled.
struct Draft<'a> {
    sources: &'a [ListedSource],
    pages: Vec<Option<Page<'a>>>,
    /// Whether the marks of the provider stay in the text.
    is_verbatim: bool,
    sections: Vec<(String, String)>,
    /// Length of the text in code points.
    length: u64,
    citations: Vec<Citation>,
    claims: Vec<Value>,
}

/// Checks the citations and assembles the result.
pub(super) fn assemble(
    text: &MarkedText,
    is_verbatim: bool,
    report: &ProviderReport,
    sources: &[ListedSource],
) -> CitedReport {
    let stored: Vec<Option<CharText<'_>>> = sources
        .iter()
        .map(|source| source.stored.as_ref().map(|(_, text)| CharText::new(text)))
        .collect();
    let mut draft = Draft {
        sources,
        pages: stored.iter().map(|text| text.as_ref().map(Page::new)).collect(),
        is_verbatim,
        sections: Vec::new(),
        length: 0,
        citations: Vec::new(),
        claims: Vec::new(),
    };
    for (section, number) in text.sections.iter().zip(0..) {
        draft.section(number, section);
    }
    draft.finish(report)
}

impl Draft<'_> {
    fn push(&mut self, text: &str) {
        if let Some((_, section)) = self.sections.last_mut() {
            section.push_str(text);
        }
        self.length += text.chars().count() as u64;
    }

    fn section(&mut self, number: u32, section: &MarkedSection) {
        let is_first = self.sections.is_empty();
        self.sections.push((section.title.clone(), String::new()));
        if !is_first {
            self.push("\n\n");
        }
        let statements = section.statements();
        let mut at = 0;
        let mut claim: Option<Claim<'_>> = None;
        for (position, mark) in section.marks.iter().enumerate() {
            let mut statements = statements.iter();
            let statement = statements.find(|statement| statement.marks.contains(&position));
            let first = statement.filter(|statement| statement.marks.start == position);
            if let Some(statement) = first {
                self.claims
                    .extend(claim.take().and_then(|claim| self.claim(number, &claim)));
                self.push(section.text.get(at..statement.place.start).unwrap_or_default());
                at = statement.place.start;
            }
            let start = self.length;
            self.push(section.text.get(at..mark.place.start).unwrap_or_default());
            let end = self.length;
            if let Some(statement) = first {
                claim = Some(Claim {
                    text: &statement.text,
                    start,
                    end,
                    citations: Vec::new(),
                });
            }
            if self.is_verbatim {
                self.push(section.text.get(mark.place.clone()).unwrap_or_default());
            }
            at = mark.place.end;
            let text = statement.map_or("", |statement| &*statement.text);
            for source in &mark.sources {
                let id = self.cite(*source, text, end);
                let new = claim.as_mut().zip(id);
                if let Some((claim, id)) = new.filter(|(claim, id)| !claim.citations.contains(id)) {
                    claim.citations.push(id);
                }
            }
        }
        self.claims
            .extend(claim.take().and_then(|claim| self.claim(number, &claim)));
        self.push(section.text.get(at..).unwrap_or_default());
    }

    /// Cites a source for a statement, writes the mark, and returns the id of the citation, from 1.
    fn cite(&mut self, source: usize, statement: &str, mark_start: u64) -> Option<usize> {
        let listed = self.sources.get(source)?;
        let page = self.pages.get(source).and_then(Option::as_ref);
        let quote = page.and_then(|page| page.quote(statement, listed.excerpt.as_deref()));
        let known = self
            .citations
            .iter()
            .position(|known| known.source == source && known.quote == quote);
        let id = known.unwrap_or(self.citations.len()) + 1;
        let start = if self.is_verbatim { mark_start } else { self.length };
        if !self.is_verbatim {
            self.push(&format!("[{id}]"));
        }
        if known.is_none() {
            self.citations.push(Citation {
                source,
                quote,
                start,
                end: self.length,
            });
        }
        Some(id)
    }

    /// Returns a claim; `None` if no source of its marks is listed.
    fn claim(&self, section: u32, claim: &Claim<'_>) -> Option<Value> {
        if claim.citations.is_empty() {
            return None;
        }
        let cited = claim.citations.iter();
        let mut cited = cited.filter_map(|id| self.citations.get(id - 1));
        let is_verified = cited.any(|citation| citation.quote.is_some());
        Some(json!({
            "id": format!("c{}", self.claims.len() + 1),
            "text": claim.text,
            "section": section,
            "report_start": claim.start,
            "report_end": claim.end,
            "citations": claim.citations,
            "status": if is_verified { "verified" } else { "unverified" },
            "reason": (!is_verified).then_some(UNCONFIRMED),
        }))
    }

    fn finish(self, report: &ProviderReport) -> CitedReport {
        let cited: Vec<Value> = self
            .citations
            .iter()
            .zip(1..)
            .map(|(citation, id)| citation.json(id, self.sources))
            .collect();
        let listed = self.sources.iter().enumerate().map(|(place, listed)| {
            let is_cited = self.citations.iter().any(|citation| citation.source == place);
            listed.json(is_cited)
        });
        let sources: Vec<Value> = listed.collect();
        let text: String = self.sections.iter().map(|(_, text)| &**text).collect();
        let confirmed = self
            .citations
            .iter()
            .filter(|citation| citation.quote.is_some())
            .count();
        let verified = self
            .claims
            .iter()
            .filter(|claim| claim["status"] == "verified")
            .count();
        let accuracy = (!cited.is_empty()).then(|| confirmed as f64 / cited.len() as f64);
        let result = json!({
            "report": text,
            "stats": {
                "searches": report.usage.searches(),
                "pages": self.sources.iter().filter(|source| source.stored.is_some()).count(),
                "notes": confirmed,
                "claims": self.claims.len(),
                "verified": verified,
                "repaired": 0,
                "removed": 0,
                "lost_calls": 0,
                "citation_accuracy": accuracy,
                "first_accuracy": accuracy,
            },
            "citations": cited,
            "sources": sources,
            "claims": self.claims,
            "stopped_by": if report.is_incomplete { "budget" } else { "complete" },
            "degraded": report.is_incomplete,
        });
        CitedReport {
            sections: self.sections,
            result,
        }
    }
}

impl Citation {
    fn json(&self, id: u32, sources: &[ListedSource]) -> Value {
        let source = sources.get(self.source);
        let stored = source
            .and_then(|source| source.stored.as_ref())
            .map(|(stored, _)| stored);
        let url = stored
            .map(|stored| &stored.final_url)
            .or(source.map(|source| &source.url));
        let quote = self.quote.as_ref();
        json!({
            "id": id,
            "source_id": source.map(|source| source_id(source.number)),
            "url": url,
            "title": source.map(ListedSource::title),
            "date": source.map(ListedSource::date),
            "quote": quote.map(|quote| &quote.text),
            "start": quote.map(|quote| quote.start),
            "end": quote.map(|quote| quote.end),
            "report_start": self.start,
            "report_end": self.end,
            "match": quote.map(|quote| quote.matched),
            "support": null,
            "verified": quote.is_some(),
        })
    }
}

impl ListedSource {
    fn title(&self) -> &str {
        match &self.stored {
            Some((stored, _)) if self.title.is_empty() => &stored.title,
            _ => &self.title,
        }
    }

    fn date(&self) -> Option<Date> {
        self.stored
            .as_ref()
            .and_then(|(stored, _)| stored.date)
            .or(self.date)
    }

    /// Returns the source. One that could not be read has no stored text, which its flag shows.
    fn json(&self, is_cited: bool) -> Value {
        let mut shown = match &self.stored {
            Some((stored, _)) => report::source(stored),
            None => json!({
                "id": source_id(self.number),
                "kind": "web",
                "url": self.url,
                "final_url": self.url,
                "author": null,
                "retrieved_at": null,
                "sha256": null,
                "characters": 0,
                "flags": [UNREAD],
            }),
        };
        shown["title"] = self.title().into();
        shown["date"] = json!(self.date());
        shown["cited"] = is_cited.into();
        shown
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_types::{MediaId, Timestamp};
    use tollgate_upstream::ReportMark;

    use super::super::text::{formatted, verbatim};
    use super::*;

    const PAGE: &str = "The harbour is old. Ferries sail on 212 days of the year. The fare is 5 €.";

    fn stored(number: u32, url: &str, text: &str) -> ListedSource {
        let source = Source {
            number,
            kind: "web".to_owned(),
            url: url.to_owned(),
            final_url: format!("{url}/final"),
            title: "Stored".to_owned(),
            author: None,
            date: None,
            retrieved_at: Timestamp::from_micros(0),
            sha256: "00".to_owned(),
            characters: text.chars().count() as u64,
            simhash: 0,
            media: MediaId::from_u128(1),
            flags: Vec::new(),
            is_private: false,
        };
        ListedSource {
            number,
            url: url.to_owned(),
            title: "Listed".to_owned(),
            date: None,
            excerpt: None,
            stored: Some((source, text.to_owned())),
        }
    }

    fn unread(number: u32, url: &str) -> ListedSource {
        ListedSource {
            stored: None,
            ..stored(number, url, "")
        }
    }

    /// Returns a report whose marks are `<a>`, `<b>` and `<c>`.
    fn report(text: &str) -> ProviderReport {
        let mut marks: Vec<ReportMark> = Vec::new();
        for (source, mark) in ["<a>", "<b>", "<c>"].into_iter().enumerate() {
            marks.extend(text.match_indices(mark).map(|(start, _)| ReportMark {
                start,
                end: start + 3,
                sources: vec![source],
            }));
        }
        marks.sort_by_key(|mark| mark.start);
        ProviderReport {
            text: text.to_owned(),
            marks,
            ..ProviderReport::default()
        }
    }

    fn slice(text: &Value, place: (&Value, &Value)) -> String {
        let (start, end) = (place.0.as_u64().unwrap(), place.1.as_u64().unwrap());
        let text = text.as_str().unwrap().chars().skip(start as usize);
        text.take((end - start) as usize).collect()
    }

    #[test]
    fn confirmed_and_unconfirmed_citations_have_their_places() {
        let sources = [
            stored(1, "https://a.example", PAGE),
            stored(
                2,
                "https://b.example",
                "An unrelated page about other things entirely.",
            ),
            unread(3, "https://c.example"),
        ];
        let report = report(
            "Été.\n\n# Ferries\n\nFerries sail on 212 days. <a><b> The fare is 5 € <a>, not 6 € <a>.\n\nRain is rare <c>.",
        );
        let cited = assemble(&formatted(&report), false, &report, &sources);
        let result = cited.result;
        let text = &result["report"];
        assert_eq!(
            text,
            "Été.\n\n## Ferries\n\nFerries sail on 212 days.[1][2] The fare is 5 €[3], not 6 €[4].\n\nRain is rare[5]."
        );
        let joined: String = cited.sections.iter().map(|(_, text)| &**text).collect();
        assert_eq!(text, &joined);
        for citation in result["citations"].as_array().unwrap() {
            let mark = slice(text, (&citation["report_start"], &citation["report_end"]));
            assert_eq!(mark, format!("[{}]", citation["id"]));
            if citation["verified"] == true {
                let quote = slice(&PAGE.into(), (&citation["start"], &citation["end"]));
                assert_eq!(citation["quote"], quote);
            } else {
                assert!(
                    citation["quote"].is_null() && citation["start"].is_null(),
                    "{citation}"
                );
            }
        }
        let verified: Vec<bool> = result["citations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|citation| citation["verified"] == true)
            .collect();
        assert_eq!(verified, [true, false, true, false, false]);
        assert_eq!(result["citations"][0]["url"], "https://a.example/final");
        assert_eq!(result["citations"][4]["url"], "https://c.example");
        let claims: Vec<(String, Value)> = result["claims"]
            .as_array()
            .unwrap()
            .iter()
            .map(|claim| {
                let place = (&claim["report_start"], &claim["report_end"]);
                (slice(text, place), claim["status"].clone())
            })
            .collect();
        let expected = [
            ("Ferries sail on 212 days.", "verified"),
            ("The fare is 5 €", "verified"),
            ("not 6 €", "unverified"),
            ("Rain is rare", "unverified"),
        ];
        assert_eq!(
            claims,
            expected.map(|(text, status)| (text.to_owned(), status.into()))
        );
        assert_eq!(result["sources"][2]["flags"], json!([UNREAD]));
        assert_eq!(result["stats"]["citation_accuracy"], 0.4);
    }

    #[test]
    fn verbatim_reports_have_the_marks_of_the_provider() {
        let sources = [stored(1, "https://a.example", PAGE)];
        let report = report("# Été\n\nFerries sail on 212 days <a>.");
        let result = assemble(&verbatim(&report), true, &report, &sources).result;
        assert_eq!(result["report"], "# Été\n\nFerries sail on 212 days <a>.");
        let citation = &result["citations"][0];
        let mark = slice(
            &result["report"],
            (&citation["report_start"], &citation["report_end"]),
        );
        assert_eq!((&*mark, &citation["verified"]), ("<a>", &true.into()));
        let claim = &result["claims"][0];
        let text = slice(&result["report"], (&claim["report_start"], &claim["report_end"]));
        assert_eq!(text, "Ferries sail on 212 days ");
    }

    proptest! {
        /// Any text of a provider becomes a report whose places fit.
        #[test]
        fn places_fit_in_any_report(
            parts in prop::collection::vec(prop::sample::select(PARTS), 0..40),
            is_verbatim in any::<bool>(),
        ) {
            let sources = [
                stored(1, "https://a.example", PAGE),
                unread(2, "https://b.example"),
            ];
            let report = report(&parts.concat());
            let text = if is_verbatim { verbatim(&report) } else { formatted(&report) };
            let cited = assemble(&text, is_verbatim, &report, &sources);
            let result = cited.result;
            let joined: String = cited.sections.iter().map(|(_, text)| &**text).collect();
            prop_assert_eq!(&result["report"], &joined);
            for citation in result["citations"].as_array().unwrap() {
                let mark = slice(&result["report"], (&citation["report_start"], &citation["report_end"]));
                match is_verbatim {
                    true => prop_assert!(["<a>", "<b>"].contains(&&*mark), "{}", mark),
                    false => prop_assert_eq!(mark, format!("[{}]", citation["id"])),
                }
                if citation["verified"] == true {
                    let quote = slice(&PAGE.into(), (&citation["start"], &citation["end"]));
                    prop_assert_eq!(&citation["quote"], &quote);
                }
            }
            if !is_verbatim {
                let text = result["report"].as_str().unwrap();
                let last = result["citations"].as_array().unwrap().len() + 1;
                prop_assert!(text.contains('`') || !text.contains(&format!("[{last}]")), "{}", text);
            }
            for claim in result["claims"].as_array().unwrap() {
                let place = slice(&result["report"], (&claim["report_start"], &claim["report_end"]));
                prop_assert!(!place.trim().is_empty(), "{}", claim);
                prop_assert!(!claim["citations"].as_array().unwrap().is_empty(), "{}", claim);
            }
        }
    }

    /// Texts of reports with marks, Markdown, markup and the characters that the editing uses.
    const PARTS: &[&str] = &[
        "Ferries sail on 212 days of the year. ",
        "Été",
        " ",
        "\n",
        "\n\n",
        "<a>",
        "<b>",
        "<c>",
        "# Title\n",
        "## ",
        "```\n",
        "- ",
        "| a | b |\n",
        "|---|---|\n",
        "\u{27E6}0\u{27E7}",
        "\u{27E6}",
        "[2]",
        "![x](http://canary.example/)",
        "**",
        "`",
        "<b>bold</b>",
        "\u{200B}",
        "&lt;",
        "\\",
        ", ",
    ];
}
