//! Spellings of units, currencies and multipliers.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Bytes that no spelling exceeds.
const MAX_SPELLING_BYTES: usize = 40;

/// Units with their spellings, separated by `|`. Spellings of one or two letters are
/// case-sensitive.
const UNITS: &[(&str, &str)] = &[
    (
        "%",
        "%|percent|per cent|pct|prozent|pour cent|por ciento|per cento|por cento|procent",
    ),
    (
        "pp",
        "percentage point|percentage points|pp|prozentpunkt|prozentpunkte",
    ),
    ("‰", "‰|per mille|promille"),
    (
        "km",
        "km|kilometre|kilometres|kilometer|kilometers|kilomètre|kilomètres|kilómetro|kilómetros",
    ),
    (
        "m",
        "m|metre|metres|meter|meters|metern|mètre|mètres|metro|metros",
    ),
    (
        "cm",
        "cm|centimetre|centimetres|centimeter|centimeters|zentimeter",
    ),
    ("mm", "mm|millimetre|millimetres|millimeter|millimeters"),
    ("nm", "nm|nanometre|nanometres|nanometer|nanometers"),
    ("mi", "mi|mile|miles|meilen"),
    ("ft", "ft|foot|feet"),
    ("in", "inch|inches"),
    (
        "km2",
        "km2|square kilometre|square kilometres|square kilometer|square kilometers|quadratkilometer",
    ),
    (
        "m2",
        "m2|square metre|square metres|square meter|square meters|quadratmeter|sqm",
    ),
    ("ha", "ha|hectare|hectares|hektar|hectárea|hectáreas"),
    ("acre", "acre|acres"),
    (
        "m3",
        "m3|cubic metre|cubic metres|cubic meter|cubic meters|kubikmeter",
    ),
    ("l", "l|L|litre|litres|liter|liters|litros"),
    ("ml", "ml|mL|millilitre|millilitres|milliliter|milliliters"),
    (
        "kg",
        "kg|kilogram|kilograms|kilogramme|kilogrammes|kilogramm|kilo|kilos",
    ),
    ("g", "g|gram|grams|gramme|grammes|gramm"),
    ("mg", "mg|milligram|milligrams|milligramm"),
    (
        "t",
        "t|tonne|tonnes|ton|tons|tonnen|toneladas|metric tons|metric tonnes",
    ),
    ("lb", "lb|lbs"),
    (
        "s",
        "s|sec|second|seconds|sekunde|sekunden|seconde|secondes|segundos",
    ),
    ("ms", "ms|millisecond|milliseconds"),
    ("min", "min|minute|minutes|minuten|minutos"),
    ("h", "h|hr|hrs|hour|hours|stunde|stunden|heure|heures|hora|horas"),
    ("day", "day|days|tag|tage|tagen|jour|jours|día|días|天"),
    ("week", "week|weeks|woche|wochen|semaine|semaines|semana|semanas"),
    ("month", "month|months|monat|monate|monaten|mois|mes|meses"),
    (
        "year",
        "year|years|yr|yrs|jahr|jahre|jahren|an|ans|année|années|año|años|年",
    ),
    ("km/h", "km/h|kph|kilometres per hour|kilometers per hour"),
    ("mph", "mph|miles per hour"),
    ("m/s", "m/s|metres per second|meters per second"),
    (
        "°C",
        "°C|degrees celsius|degree celsius|grad celsius|celsius|degrees c",
    ),
    ("°F", "°F|degrees fahrenheit|degree fahrenheit|fahrenheit"),
    ("W", "W|watt|watts"),
    ("kW", "kW|kilowatt|kilowatts"),
    ("MW", "MW|megawatt|megawatts"),
    ("GW", "GW|gigawatt|gigawatts"),
    ("TW", "TW|terawatt|terawatts"),
    ("kWh", "kWh|kilowatt hour|kilowatt hours|kilowattstunden"),
    ("MWh", "MWh|megawatt hour|megawatt hours"),
    ("GWh", "GWh|gigawatt hour|gigawatt hours"),
    ("TWh", "TWh|terawatt hour|terawatt hours"),
    ("V", "V|volt|volts"),
    ("Hz", "Hz|hertz"),
    ("kHz", "kHz|kilohertz"),
    ("MHz", "MHz|megahertz"),
    ("GHz", "GHz|gigahertz"),
    ("kB", "kB|KB|kilobyte|kilobytes"),
    ("MB", "MB|megabyte|megabytes"),
    ("GB", "GB|gigabyte|gigabytes"),
    ("TB", "TB|terabyte|terabytes"),
    ("ppm", "ppm|parts per million"),
    ("USD", "$|US$|USD|dollar|dollars|us dollars"),
    ("EUR", "€|EUR|euro|euros"),
    ("GBP", "£|GBP|pound|pounds|pounds sterling"),
    ("JPY", "¥|JPY|yen"),
    ("CNY", "CNY|RMB|yuan|元"),
    ("CHF", "CHF|francs|franken"),
    ("INR", "₹|INR|rupee|rupees"),
    ("KRW", "₩|KRW|won"),
];

/// Multipliers with their spellings.
const MULTIPLIERS: &[(f64, &str)] = &[
    (1e3, "thousand|thousands|tausend|mille|mil|k|K|tsd"),
    (1e4, "万|萬"),
    (1e5, "lakh|lakhs"),
    (
        1e6,
        "million|millions|millionen|mio|millón|millones|milione|milioni|milhão|milhões|mn",
    ),
    (1e7, "crore|crores"),
    (1e8, "亿|億"),
    (
        1e9,
        "billion|billions|bn|milliarde|milliarden|mrd|milliard|milliards|miliardo|miliardi",
    ),
    (1e12, "trillion|trillions|tn|billionen|billones"),
];

static UNIT_OF: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| by_spelling(UNITS));
static MULTIPLIER_OF: LazyLock<HashMap<&str, f64>> = LazyLock::new(|| by_spelling(MULTIPLIERS));

fn by_spelling<T: Copy>(table: &[(T, &'static str)]) -> HashMap<&'static str, T> {
    let rows = table
        .iter()
        .flat_map(|(value, spellings)| spellings.split('|').map(|spelling| (spelling, *value)));
    rows.collect()
}

/// Returns the unit of a spelling.
pub(super) fn unit_of(text: &str) -> Option<&'static str> {
    find(&UNIT_OF, text)
}

/// Returns the currency of a mark or a code before a number.
pub(super) fn currency_of(text: &str) -> Option<&'static str> {
    let is_sign = matches!(text, "$" | "€" | "£" | "¥" | "₹" | "₩" | "US$");
    let is_code = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase());
    (is_sign || is_code)
        .then(|| unit_of(text))
        .flatten()
        .filter(|unit| unit.len() == 3)
}

/// Returns the value of a multiplier.
pub(super) fn multiplier_of(text: &str) -> Option<f64> {
    find(&MULTIPLIER_OF, text)
}

fn find<T: Copy>(table: &HashMap<&str, T>, text: &str) -> Option<T> {
    if text.len() > MAX_SPELLING_BYTES {
        return None;
    }
    let is_long = text.chars().nth(2).is_some();
    let lower = || table.get(text.to_lowercase().as_str()).filter(|_| is_long);
    table.get(text).or_else(lower).copied()
}
