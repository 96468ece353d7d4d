//! Credits: whole nano-credits, never floats. Costs are rounded only by
//! [`Credits::from_price_sum`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An amount in nano-credits; 1 credit = 1,000,000,000 nano-credits. Serialized as a decimal string
/// (`"0.0125"`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Credits(i64);

/// Number of nano-credits in one credit.
pub const NANOS_PER_CREDIT: i64 = 1_000_000_000;

/// Number of units per price: prices are per million units.
pub const UNITS_PER_PRICE: i128 = 1_000_000;

impl Credits {
    /// An amount of zero.
    pub const ZERO: Credits = Credits(0);
    /// The largest amount: `i64::MAX` nano-credits.
    pub const MAX: Credits = Credits(i64::MAX);

    /// Creates an amount from nano-credits.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Creates an amount from whole credits; `None` on overflow.
    pub fn from_whole(credits: i64) -> Option<Self> {
        credits.checked_mul(NANOS_PER_CREDIT).map(Self)
    }

    /// Returns the amount in nano-credits.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Returns the sum, or `None` on overflow.
    pub fn checked_add(self, other: Credits) -> Option<Credits> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Returns the difference, or `None` on overflow.
    pub fn checked_sub(self, other: Credits) -> Option<Credits> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// Returns the difference, or zero if it is negative.
    pub fn saturating_sub(self, other: Credits) -> Credits {
        Self(self.0.saturating_sub(other.0).max(0))
    }

    /// Returns the amount as decimal text, as on the wire.
    pub fn decimal(self) -> Decimal {
        Decimal::of(self)
    }

    /// Whether the amount is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns the cost of a usage entry from `Σ quantity × price` (nano-credits per million
    /// units). The discount `numerator / denominator` is applied first; then the result is rounded
    /// up once. Saturates at [`Credits::MAX`].
    pub fn from_price_sum(sum: i128, discount: Discount) -> Credits {
        let divisor = UNITS_PER_PRICE.saturating_mul(i128::from(discount.denominator));
        let scaled = sum.max(0).saturating_mul(i128::from(discount.numerator));
        let rounded_up = scaled.saturating_add(divisor - 1) / divisor;
        Self(i64::try_from(rounded_up).unwrap_or(i64::MAX))
    }
}

/// Factor of at most one that reduces the cost of a whole usage entry, such as 65/100 for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discount {
    pub numerator: u32,
    /// Denominator of the factor; never zero.
    pub denominator: u32,
}

impl Discount {
    /// No discount: the list price.
    pub const NONE: Discount = Discount {
        numerator: 1,
        denominator: 1,
    };
    /// Discount of batch requests: 35 % off the list price.
    pub const BATCH: Discount = Discount {
        numerator: 65,
        denominator: 100,
    };
}

impl Default for Discount {
    fn default() -> Self {
        Self::NONE
    }
}

/// Error: the text is not an amount of credits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseCreditsError(String);

impl fmt::Display for ParseCreditsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not an amount of credits: write a decimal number with at most nine decimals, such as 12.5",
            self.0
        )
    }
}

impl std::error::Error for ParseCreditsError {}

impl FromStr for Credits {
    type Err = ParseCreditsError;

    fn from_str(text: &str) -> Result<Self, ParseCreditsError> {
        parse_decimal(text).ok_or_else(|| ParseCreditsError(text.chars().take(40).collect()))
    }
}

fn parse_decimal(text: &str) -> Option<Credits> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let dangling_point = digits.contains('.') && fraction.is_empty();
    if whole.is_empty() || dangling_point || fraction.len() > 9 || !all_digits(whole) || !all_digits(fraction)
    {
        return None;
    }
    let nanos_of_fraction: i64 = format!("{fraction:0<9}").parse().ok()?;
    let nanos = whole
        .parse::<i64>()
        .ok()?
        .checked_mul(NANOS_PER_CREDIT)?
        .checked_add(nanos_of_fraction)?;
    Some(Credits(if negative { -nanos } else { nanos }))
}

impl fmt::Display for Credits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.decimal().as_str())
    }
}

/// Decimal text form of an amount: `-?[0-9]+(\.[0-9]*[1-9])?`. Formatting allocates no heap memory,
/// because every response contains an amount.
#[derive(Clone, Copy)]
pub struct Decimal {
    text: [u8; Decimal::MAX_LENGTH],
    start: usize,
    end: usize,
}

impl Decimal {
    /// Maximum length in bytes: sign, ten digits, decimal point and nine decimals.
    const MAX_LENGTH: usize = 21;
    const POINT: usize = 11;

    fn of(amount: Credits) -> Self {
        let mut text = [b'0'; Self::MAX_LENGTH];
        text[Self::POINT] = b'.';
        let per_credit = NANOS_PER_CREDIT.unsigned_abs();
        let magnitude = amount.0.unsigned_abs();
        let (mut whole, mut fraction) = (magnitude / per_credit, magnitude % per_credit);
        let mut end = if fraction == 0 {
            Self::POINT
        } else {
            Self::MAX_LENGTH
        };
        for place in (Self::POINT + 1..end).rev() {
            text[place] = b'0' + (fraction % 10) as u8;
            fraction /= 10;
        }
        while end > Self::POINT && text[end - 1] == b'0' {
            end -= 1;
        }
        let mut start = Self::POINT - 1;
        loop {
            text[start] = b'0' + (whole % 10) as u8;
            whole /= 10;
            if whole == 0 {
                break;
            }
            start -= 1;
        }
        if amount.0 < 0 {
            start -= 1;
            text[start] = b'-';
        }
        Self { text, start, end }
    }

    /// Returns the text form.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// Returns the text form as ASCII bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.text.get(self.start..self.end).unwrap_or_default()
    }
}

impl fmt::Debug for Credits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Credits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Credits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_text_round_trips() {
        let cases = [
            ("0", 0),
            ("12.5", 12_500_000_000),
            ("0.000000001", 1),
            ("-3.25", -3_250_000_000),
        ];
        for (text, nanos) in cases {
            assert_eq!(text.parse(), Ok(Credits::from_nanos(nanos)), "{text}");
            assert_eq!(Credits::from_nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn malformed_amounts_are_rejected() {
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "1e9",
            "0.0000000001",
            "9223372037",
            "--1",
            "1,5",
            " 1",
            "+1",
            "NaN",
        ] {
            assert!(text.parse::<Credits>().is_err(), "{text}");
        }
    }

    #[test]
    fn rounds_up_once() {
        assert_eq!(Credits::from_price_sum(1, Discount::NONE).nanos(), 1);
        assert_eq!(Credits::from_price_sum(1_000_000, Discount::NONE).nanos(), 1);
        assert_eq!(Credits::from_price_sum(1_000_001, Discount::NONE).nanos(), 2);
        let batch = Discount {
            numerator: 65,
            denominator: 100,
        };
        assert_eq!(Credits::from_price_sum(10_000_000, batch).nanos(), 7);
        assert_eq!(Credits::from_price_sum(i128::MAX, Discount::NONE), Credits::MAX);
    }
}
