//! Styles that hide an element. Only its own `style` attribute is known: style sheets are not read.

/// Minimum size of readable text, in pixels.
const MIN_READABLE_PX: f64 = 2.0;
/// Offset in pixels beyond which an element is outside of the page.
const OUTSIDE_PX: f64 = 900.0;
/// Opacity below which an element cannot be seen.
const MIN_OPACITY: f64 = 0.05;

/// Whether a `style` attribute hides its element.
pub(super) fn is_hiding(style: &str) -> bool {
    let style = normalized(style);
    let declarations: Vec<(&str, &str)> = style.split(';').filter_map(|one| one.split_once(':')).collect();
    let value = |name: &str| {
        let found = declarations.iter().rev().find(|(other, _)| *other == name);
        found.map(|(_, value)| *value).unwrap_or_default()
    };
    let hides = |(name, value): &(&str, &str)| match *name {
        "display" => *value == "none",
        "visibility" => matches!(*value, "hidden" | "collapse"),
        "content-visibility" => *value == "hidden",
        "font-size" | "zoom" => is_tiny(value),
        "font" => value
            .split(' ')
            .any(|part| is_tiny(part.split('/').next().unwrap_or(part))),
        "opacity" => number(value).is_some_and(|(opacity, _)| opacity < MIN_OPACITY),
        "color" | "-webkit-text-fill-color" => is_transparent(value),
        "text-indent" => number(value).is_some_and(|(offset, _)| offset.abs() > OUTSIDE_PX),
        "transform" => value.contains("scale(0)") || value.contains("scale(0,"),
        "clip" => value.starts_with("rect(0") || value.starts_with("rect(1px"),
        "clip-path" => value.starts_with("inset(50%") || value.starts_with("inset(100%"),
        "left" | "top" | "right" | "bottom" | "margin-left" | "margin-top" => {
            number(value).is_some_and(|(offset, _)| offset < -OUTSIDE_PX)
        }
        _ => false,
    };
    let has_no_space = ["height", "width", "max-height", "max-width"].iter().any(|name| {
        number(value(name)).is_some_and(|(size, unit)| size <= 1.0 && unit != "%" || size == 0.0)
    });
    let is_cut = matches!(value("overflow"), "hidden" | "clip");
    let color = value("color");
    let is_camouflaged = !color.is_empty()
        && [value("background"), value("background-color")]
            .iter()
            .any(|one| same_color(one, color));
    declarations.iter().any(hides) || (has_no_space && is_cut) || is_camouflaged
}

/// Returns a style in lower case, without comments, escapes, priorities and superfluous spaces.
fn normalized(style: &str) -> String {
    let mut text = String::with_capacity(style.len());
    let mut rest = style;
    while let Some((before, comment)) = rest.split_once("/*") {
        text.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let text = unescaped(&text).to_lowercase();
    let declaration = |one: &str| {
        let (name, value) = one.split_once(':')?;
        let value = value.split('!').next().unwrap_or_default();
        let words: Vec<&str> = value.split_whitespace().collect();
        Some(format!("{}:{}", name.trim(), words.join(" ")))
    };
    let declarations: Vec<String> = text.split(';').filter_map(declaration).collect();
    declarations.join(";")
}

/// Replaces escapes of CSS: a backslash and up to six hexadecimal digits, or one character.
fn unescaped(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\\' {
            output.push(character);
            continue;
        }
        let mut digits = String::new();
        while let Some(digit) = characters.next_if(|c| c.is_ascii_hexdigit() && digits.len() < 6) {
            digits.push(digit);
        }
        if digits.is_empty() {
            output.extend(characters.next());
            continue;
        }
        characters.next_if(|c| c.is_whitespace());
        let code = u32::from_str_radix(&digits, 16).ok();
        output.extend(code.and_then(char::from_u32));
    }
    output
}

/// Splits a size such as `1.5em` into its number and its unit.
fn number(value: &str) -> Option<(f64, &str)> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    let end = value.find(|c| !is_part(c)).unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    Some((number.parse().ok()?, unit.trim()))
}

/// Whether a font size is too small to read.
fn is_tiny(value: &str) -> bool {
    number(value).is_some_and(|(size, unit)| match unit {
        "" => size == 0.0,
        "em" | "rem" | "ex" | "ch" | "vw" | "vh" => size < 0.15,
        "%" => size < 15.0,
        "in" | "cm" => size < 0.05,
        "px" | "pt" | "mm" | "pc" => size < MIN_READABLE_PX,
        _ => false,
    })
}

fn is_transparent(color: &str) -> bool {
    let color: String = color.split_whitespace().collect();
    let alpha = || {
        let inner = color.strip_suffix(')')?;
        let (_, inner) = inner.split_once('(')?;
        let alpha = inner.rsplit(['/', ',']).next()?;
        let has_alpha = inner.contains('/') || inner.matches(',').count() == 3;
        has_alpha.then(|| number(alpha)).flatten()
    };
    color == "transparent"
        || (color.starts_with('#') && matches!(color.len(), 5 | 9) && {
            let digits = if color.len() == 5 { 1 } else { 2 };
            color.ends_with(if digits == 1 { "0" } else { "00" })
        })
        || alpha().is_some_and(|(alpha, _)| alpha < MIN_OPACITY)
}

/// Whether two colors are written as the same color.
fn same_color(one: &str, other: &str) -> bool {
    let normal = |color: &str| -> String {
        let color: String = color.split_whitespace().collect();
        match color.as_str() {
            "white" => "#ffffff".to_owned(),
            "black" => "#000000".to_owned(),
            "rgb(255,255,255)" => "#ffffff".to_owned(),
            "rgb(0,0,0)" => "#000000".to_owned(),
            short if short.len() == 4 && short.starts_with('#') => short
                .chars()
                .flat_map(|c| std::iter::repeat_n(c, if c == '#' { 1 } else { 2 }))
                .collect(),
            _ => color,
        }
    };
    !one.is_empty() && normal(one) == normal(other)
}

#[cfg(test)]
mod tests {
    use super::is_hiding;

    #[test]
    fn styles_that_hide_are_known() {
        for style in [
            "display:none",
            "color:red; DISPLAY : None !important ;",
            "display:/**/none",
            "dis\\70lay:no\\6e e",
            "visibility:hidden",
            "font-size:0",
            "font-size: 0px",
            "font-size:0.5px",
            "font-size:.01em",
            "font-size:1%",
            "font:0/0 a",
            "opacity:0",
            "opacity: 0.01",
            "color:transparent",
            "color:rgba(0,0,0,0)",
            "color:rgb(0 0 0 / 0%)",
            "color:#fff0",
            "color:#FFF;background:white",
            "color:#ffffff;background-color:#fff",
            "text-indent:-9999px",
            "position:absolute;left:-9999px",
            "position:absolute;clip:rect(0 0 0 0)",
            "clip-path: inset(50%)",
            "height:0;overflow:hidden",
            "width:1px;height:1px;overflow:hidden",
            "max-height:0px;overflow:hidden",
            "transform:scale(0)",
            "content-visibility:hidden",
        ] {
            assert!(is_hiding(style), "{style}");
        }
    }

    #[test]
    fn other_styles_do_not_hide() {
        for style in [
            "",
            "display",
            "display:block",
            "font-size:12px",
            "font-size:1em",
            "font: bold 0.9em/1.2 serif",
            "font-size:80%",
            "opacity:1",
            "opacity:0.9",
            "color:#000",
            "color:#fff;background:#000",
            "color:rgb(0,0,0)",
            "color:rgba(0,0,0,0.8)",
            "text-indent:2em",
            "left:-10px",
            "height:0",
            "overflow:hidden",
            "width:100%;overflow:hidden",
            "margin:0;padding:0",
            "background:none",
            "transform:scale(1)",
        ] {
            assert!(!is_hiding(style), "{style}");
        }
        let long = format!("background:url({});display:none", "a".repeat(100_000));
        assert!(is_hiding(&long));
    }
}
