//! Text of Markdown documents. They may contain HTML, so they are converted to HTML and read like
//! every other page.

use pulldown_cmark::{Options, Parser, html::push_html};
use tollgate_evidence::front_matter;
use tollgate_types::Date;

use crate::Draft;
use crate::html::{self, Reading};

pub(crate) fn draft(text: &str, today: Date) -> Draft {
    let (fields, body) = front_matter::split(text);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES;
    let mut page = String::with_capacity(body.len() * 2);
    push_html(&mut page, Parser::new_ext(body, options));
    let mut draft = html::draft_of(&page, today, Reading::Whole);
    if let Some(title) = fields.title {
        draft.title = title;
    }
    draft.date = fields.date.or(draft.date);
    draft.author = fields.author.or(draft.author);
    draft.canonical_url = fields.url.or(draft.canonical_url);
    draft
}
