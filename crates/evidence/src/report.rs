//! Markdown of report sections that a model wrote, without images, HTML and foreign links.
//!
//! Code is preserved only in a form that every Markdown renderer recognizes as code: spans within
//! one line, and fenced blocks, which move to the first column. All other backticks are escaped.

mod blocks;
mod cells;
mod html;
mod links;
#[cfg(test)]
mod tests;

use blocks::Block;

use crate::script::is_invisible;

/// Returns a section without images, raw HTML, control characters, and links except to URLs that
/// `allowed` accepts; the text of other links remains. Headings begin at level 3. Text of code
/// spans and fenced code is unchanged. Outside code, the result contains no `<`, no `![`, and no
/// other URL with a scheme or `www.`.
pub fn sanitize_section(markdown: &str, allowed: &dyn Fn(&str) -> bool) -> String {
    let markdown = markdown.replace("\r\n", "\n").replace('\r', "\n");
    let visible: String = markdown.chars().filter(|&c| !is_invisible(c)).collect();
    let blocks = blocks::split(&visible);
    let mut output = String::with_capacity(visible.len());
    for block in &blocks {
        if !output.is_empty() {
            output.push('\n');
        }
        match block {
            Block::Text(text) => output.push_str(&sanitize_text(text, allowed)),
            Block::Code { fence, info, lines } => {
                output.push_str(&format!("{fence}{info}\n"));
                lines.iter().for_each(|line| output.extend([line, "\n"]));
                output.push_str(fence);
            }
        }
    }
    let output = blocks::adapt_lines(&output);
    output.trim().to_owned()
}

/// Returns text outside fenced code without images, HTML and foreign links.
fn sanitize_text(text: &str, allowed: &dyn Fn(&str) -> bool) -> String {
    let cells = cells::parse(text);
    let cells = html::without_html(&cells, allowed);
    let cells = links::without_links(&cells, allowed);
    let cells = links::without_urls(&cells, allowed);
    cells::serialize(&cells)
}
