//! Values of numbers in text.

/// One reading of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// Amount, without sign.
    pub amount: f64,
    /// Unit of the last digit: 0.1 for 11.8, 1 for 12, and 100,000 for 1.2 million.
    pub step: f64,
}

/// Numbers in English words. "One" is not a number of a claim: it is rarely a count.
const WORDS: [(&str, f64); 29] = [
    ("zero", 0.0),
    ("two", 2.0),
    ("three", 3.0),
    ("four", 4.0),
    ("five", 5.0),
    ("six", 6.0),
    ("seven", 7.0),
    ("eight", 8.0),
    ("nine", 9.0),
    ("ten", 10.0),
    ("eleven", 11.0),
    ("twelve", 12.0),
    ("thirteen", 13.0),
    ("fourteen", 14.0),
    ("fifteen", 15.0),
    ("sixteen", 16.0),
    ("seventeen", 17.0),
    ("eighteen", 18.0),
    ("nineteen", 19.0),
    ("twenty", 20.0),
    ("thirty", 30.0),
    ("forty", 40.0),
    ("fifty", 50.0),
    ("sixty", 60.0),
    ("seventy", 70.0),
    ("eighty", 80.0),
    ("ninety", 90.0),
    ("hundred", 100.0),
    ("dozen", 12.0),
];

/// Returns the value of a number in a word.
pub(super) fn word_value(word: &str) -> Option<Value> {
    if !word.is_ascii() {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let (_, amount) = WORDS.iter().find(|(name, _)| *name == word)?;
    Some(Value {
        amount: *amount,
        step: 1.0,
    })
}

/// Returns the readings of digits with separators: "1,234" is 1234, or 1.234 in other countries.
/// Empty for texts such as "1.2.3".
pub(super) fn values(text: &str) -> Vec<Value> {
    let separators: Vec<char> = text.chars().filter(|c| !c.is_ascii_digit()).collect();
    let Some(&last) = separators.last() else {
        return integer(text).into_iter().collect();
    };
    let groups: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).collect();
    let is_uniform = separators.iter().all(|&separator| separator == last);
    let mut values = Vec::new();
    if is_uniform && is_grouped(&groups) {
        values.extend(integer(&groups.concat()));
    }
    let (whole, fraction) = groups.split_at(groups.len() - 1);
    let is_decimal = matches!(last, '.' | ',') && separators.iter().filter(|&&c| c == last).count() == 1;
    let is_one_group = whole.len() == 1 || (is_grouped(whole) && has_one_kind(&separators));
    if is_decimal && is_one_group {
        values.extend(decimal(&whole.concat(), fraction[0]));
    }
    values
}

/// Whether all separators but the last are equal.
fn has_one_kind(separators: &[char]) -> bool {
    let grouping = &separators[..separators.len().saturating_sub(1)];
    grouping.windows(2).all(|pair| pair[0] == pair[1])
}

/// Whether groups separate thousands: 1 234 567, or 12 34 567 in India.
fn is_grouped(groups: &[&str]) -> bool {
    let (Some(first), Some(last)) = (groups.first(), groups.last()) else {
        return false;
    };
    let middle = &groups[1..groups.len().max(2) - 1];
    let width = middle.first().map_or(3, |group| group.len());
    let is_even = matches!(width, 2 | 3) && middle.iter().all(|group| group.len() == width);
    groups.len() > 1 && first.len() <= width && !first.starts_with('0') && last.len() == 3 && is_even
}

fn integer(digits: &str) -> Option<Value> {
    let amount = digits.parse().ok()?;
    Some(Value { amount, step: 1.0 })
}

fn decimal(whole: &str, fraction: &str) -> Option<Value> {
    let amount = format!("{whole}.{fraction}").parse().ok()?;
    let digits = i32::try_from(fraction.len()).ok()?;
    Some(Value {
        amount,
        step: 10_f64.powi(-digits),
    })
}
