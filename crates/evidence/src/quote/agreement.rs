//! Agreement of similar texts: a changed number, a lost negation or an opposite word changes the
//! meaning, however similar the texts are.

use std::collections::BTreeMap;

/// Words that negate a sentence.
const NEGATIONS: [&str; 50] = [
    "no", "not", "non", "nor", "never", "none", "neither", "cannot", "without", "nothing", "nowhere",
    "hardly", "barely", "nicht", "kein", "keine", "keinen", "keiner", "keinem", "keines", "nie", "niemals",
    "ohne", "weder", "nichts", "ne", "pas", "jamais", "aucun", "aucune", "sans", "rien", "nunca", "ningún",
    "ninguna", "ninguno", "sin", "jamás", "tampoco", "nada", "não", "sem", "nenhum", "mai", "nessun",
    "senza", "niet", "geen", "не", "нет",
];

/// Numbers in words.
const NUMBER_WORDS: [&str; 44] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "twenty", "thirty", "forty", "fifty", "hundred", "thousand", "million", "billion", "half", "double",
    "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "deux", "trois", "quatre",
    "cinq", "sept", "huit", "dix", "dos", "tres", "cuatro", "cinco", "siete", "ocho",
];

/// Signs that negate in Chinese and Japanese.
const NEGATIVE_SIGNS: [char; 8] = ['不', '没', '沒', '無', '无', '非', '未', 'な'];

/// Prefixes and suffixes that reverse a word.
const REVERSALS: [&str; 9] = ["un", "in", "im", "il", "ir", "dis", "non", "anti", "mis"];

/// Pairs of opposite words.
const OPPOSITES: [(&str, &str); 26] = [
    ("increase", "decrease"),
    ("increased", "decreased"),
    ("increases", "decreases"),
    ("rise", "fall"),
    ("rose", "fell"),
    ("more", "less"),
    ("more", "fewer"),
    ("higher", "lower"),
    ("above", "below"),
    ("over", "under"),
    ("before", "after"),
    ("all", "some"),
    ("always", "never"),
    ("minimum", "maximum"),
    ("min", "max"),
    ("least", "most"),
    ("first", "last"),
    ("win", "lose"),
    ("won", "lost"),
    ("gain", "loss"),
    ("import", "export"),
    ("imports", "exports"),
    ("accepted", "rejected"),
    ("allowed", "forbidden"),
    ("male", "female"),
    ("north", "south"),
];

/// Whether two folded texts have the same numbers and negations, and no opposite words.
pub(super) fn agrees(one: &[char], two: &[char]) -> bool {
    let (one, two) = (String::from_iter(one), String::from_iter(two));
    if numbers(&one) != numbers(&two) || negations(&one) != negations(&two) {
        return false;
    }
    let (one, two) = (words(&one), words(&two));
    let only = |these: &BTreeMap<String, usize>, those: &BTreeMap<String, usize>| -> Vec<String> {
        let words = these.keys().filter(|word| !those.contains_key(*word));
        words.cloned().collect()
    };
    let (only_one, only_two) = (only(&one, &two), only(&two, &one));
    let mut pairs = only_one
        .iter()
        .flat_map(|one| only_two.iter().map(move |two| (one, two)));
    !pairs.any(|(one, two)| is_opposite(one, two) || is_opposite(two, one))
}

fn is_opposite(one: &str, two: &str) -> bool {
    let is_reversed = REVERSALS
        .iter()
        .any(|prefix| one.strip_prefix(prefix) == Some(two));
    is_reversed || one.strip_suffix("less") == Some(two) || OPPOSITES.contains(&(one, two))
}

/// Returns the numbers of a text in their order, without separators at their ends.
fn numbers(text: &str) -> Vec<&str> {
    let is_part =
        |c: char| c.is_numeric() || matches!(c, '.' | ',') || "〇一二三四五六七八九十百千万亿".contains(c);
    let runs = text.split(|c: char| !is_part(c));
    let numbers = runs.map(|run| run.trim_matches(['.', ',']));
    numbers.filter(|number| !number.is_empty()).collect()
}

/// Returns the negations and the numbers in words, with their counts.
fn negations(text: &str) -> BTreeMap<String, usize> {
    let mut negations = words(text);
    negations.retain(|word, _| {
        let word = word.as_str();
        NEGATIONS.contains(&word) || NUMBER_WORDS.contains(&word)
    });
    let signs = text.chars().filter(|c| NEGATIVE_SIGNS.contains(c));
    signs.for_each(|sign| *negations.entry(sign.to_string()).or_default() += 1);
    let short = text.matches("n't").count();
    negations.insert("n't".to_owned(), short);
    negations
}

/// Returns the words of a folded text with their counts.
fn words(text: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    words.for_each(|word| *counts.entry(word.to_owned()).or_default() += 1);
    counts
}
