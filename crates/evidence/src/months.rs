//! Names of months.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Names and abbreviations in English, German, French, Spanish, Italian, Portuguese and Dutch, a
/// line for each month.
const NAMES: [&str; 12] = [
    "january jan januar jänner janvier janv enero ene gennaio gen janeiro januari",
    "february feb februar februari février févr fév febrero febbraio fevereiro",
    "march mar märz mär mars marzo março maart mrz",
    "april apr avril avr abril abr aprile",
    "may mai mayo maggio maio mei",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet juil julio luglio julho",
    "august aug août agosto augustus",
    "september sep sept septembre septiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre déc diciembre dic dicembre dezembro",
];

static MONTH_OF: LazyLock<HashMap<&str, u8>> = LazyLock::new(|| {
    let months = (1..).zip(NAMES);
    months
        .flat_map(|(month, names)| names.split_whitespace().map(move |name| (name, month)))
        .collect()
});

/// Returns the number of a month, 1 to 12, from its name in any case.
pub(crate) fn month_of(word: &str) -> Option<u8> {
    if word.len() > 16 || word.chars().nth(2).is_none() {
        return None;
    }
    MONTH_OF.get(word.to_lowercase().as_str()).copied()
}
