//! Money that buys credits. Amounts are whole numbers of the currency's smallest unit, never
//! floats.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::money::{Credits, NANOS_PER_CREDIT};

/// ISO 4217 currency code in lower case.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// United States dollar.
    pub const USD: Currency = Currency(*b"usd");

    /// Returns the three-letter code.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for Currency {
    type Err = CurrencyError;

    fn from_str(text: &str) -> Result<Self, CurrencyError> {
        let letters = <[u8; 3]>::try_from(text.as_bytes()).map_err(|_| CurrencyError)?;
        let is_code = letters.iter().all(u8::is_ascii_alphabetic);
        is_code
            .then(|| Self(letters.map(|letter| letter.to_ascii_lowercase())))
            .ok_or(CurrencyError)
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Error: the text is not a currency code of three letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurrencyError;

impl fmt::Display for CurrencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a currency code of three letters, such as usd")
    }
}

impl std::error::Error for CurrencyError {}

/// An amount of money in one currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Money {
    /// Amount in the currency's smallest unit, such as cents.
    pub amount: i64,
    pub currency: Currency,
}

/// Action of the payment provider at the end of a subscription's period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RenewalState {
    /// The provider charges the next period.
    Renews,
    /// The provider ends the subscription with the paid period.
    Ends,
    /// The subscription has already ended.
    Ended,
}

impl RenewalState {
    /// Returns the name used in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            RenewalState::Renews => "renews",
            RenewalState::Ends => "ends",
            RenewalState::Ended => "ended",
        }
    }

    /// Parses a name used in storage.
    pub fn parse(name: &str) -> Option<Self> {
        [RenewalState::Renews, RenewalState::Ends, RenewalState::Ended]
            .into_iter()
            .find(|course| course.as_str() == name)
    }
}

/// Price of one credit in one currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditPrice {
    /// Price in the smallest unit of the currency; above 0.
    pub amount: i64,
    pub currency: Currency,
}

impl CreditPrice {
    /// Returns the price of an amount of credits, rounded up to the smallest unit. Negative amounts
    /// count as zero; `None` on overflow.
    pub fn of(self, credits: Credits) -> Option<Money> {
        let nanos = i128::from(NANOS_PER_CREDIT);
        let exact = i128::from(credits.nanos().max(0)) * i128::from(self.amount);
        let amount = i64::try_from((exact + nanos - 1) / nanos).ok()?;
        let currency = self.currency;
        Some(Money { amount, currency })
    }

    /// Returns the credits that an amount of money buys, rounded down. `None` for another currency,
    /// a negative amount, a price that is not positive, or on overflow.
    pub fn credits_for(self, money: Money) -> Option<Credits> {
        if money.currency != self.currency || money.amount < 0 || self.amount <= 0 {
            return None;
        }
        let nanos = i128::from(money.amount) * i128::from(NANOS_PER_CREDIT) / i128::from(self.amount);
        i64::try_from(nanos).ok().map(Credits::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(amount: i64) -> CreditPrice {
        let currency = "USD".parse().unwrap();
        CreditPrice { amount, currency }
    }

    fn money(amount: i64, currency: &str) -> Money {
        let currency = currency.parse().unwrap();
        Money { amount, currency }
    }

    #[test]
    fn paid_amount_always_covers_the_credits() {
        for (per_credit, credits, amount) in [
            (100, "25", 2_500),
            (100, "0.000000001", 1),
            (100, "0.01", 1),
            (100, "0.010000001", 2),
            (3, "1", 3),
            (3, "0.333333334", 2),
        ] {
            let credits: Credits = credits.parse().unwrap();
            let costs = price(per_credit).of(credits).unwrap();
            assert_eq!(costs, money(amount, "usd"));
            assert!(price(per_credit).credits_for(costs).unwrap() >= credits);
        }
        assert_eq!(price(100).of(Credits::MAX), Some(money(922_337_203_686, "usd")));
        assert_eq!(price(i64::MAX).of(Credits::MAX), None);
    }

    #[test]
    fn credits_for_money_follow_the_price() {
        let of = |per_credit, amount| price(per_credit).credits_for(money(amount, "usd"));
        assert_eq!(of(100, 2_500), Credits::from_whole(25));
        assert_eq!(of(3, 1), Some(Credits::from_nanos(333_333_333)));
        assert_eq!(of(100, 0), Some(Credits::ZERO));
        assert_eq!(of(100, -1), None);
        assert_eq!(of(1, i64::MAX), None);
        assert_eq!(price(100).credits_for(money(100, "eur")), None);
    }

    #[test]
    fn currencies_are_three_letters() {
        assert_eq!("Eur".parse::<Currency>().unwrap().as_str(), "eur");
        for wrong in ["", "us", "usd ", "u5d", "dollar", "€"] {
            assert_eq!(wrong.parse::<Currency>(), Err(CurrencyError), "{wrong}");
        }
    }
}
