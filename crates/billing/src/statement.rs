//! Monthly statements: balance, purchases, spending and losses of an account, computed from its
//! transfers.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use tollgate_storage::audit::Leg;
use tollgate_storage::report::{ChargeSum, LegSum, Span, Sums};
use tollgate_storage::{ReportStore, StorageError};
use tollgate_types::{AccountId, Credits, Timestamp};

/// A calendar month in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Month {
    /// Start of the month, inclusive.
    pub start: Timestamp,
    /// End of the month, exclusive.
    pub end: Timestamp,
}

impl Month {
    /// Parses a month such as `2026-11`; `None` if the text is invalid.
    pub fn parse(text: &str) -> Option<Month> {
        let (year, month) = text.split_once('-')?;
        let digits =
            |part: &str, count| part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(year, 4) || !digits(month, 2) {
            return None;
        }
        let first = Date::new(year.parse().ok()?, month.parse().ok()?, 1).ok()?;
        let next = first.checked_add(jiff::Span::new().months(1)).ok()?;
        let at = |date: Date| {
            let midnight = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
            Some(Timestamp::from_micros(midnight.as_microsecond()))
        };
        Some(Month {
            start: at(first)?,
            end: at(next)?,
        })
    }
}

/// Credits of an account at a point in time, in nano-credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Credits of the account, including open holds.
    pub balance: i128,
    /// Credits in open holds.
    pub held: i128,
}

/// Statement of an account for one month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Position at the start of the month.
    pub opening: Position,
    /// Position at the end of the month, or now in the current month.
    pub closing: Position,
    /// Sums of the month's transfers, by leg.
    moved: Vec<LegSum>,
    /// Charges of the calls that ended in the month, by model and endpoint.
    pub charges: Vec<ChargeSum>,
}

/// Returns the sign with which a leg changes the balance: 1, -1 or 0.
fn sign(leg: Leg) -> i128 {
    match leg {
        Leg::Grant | Leg::Promotion | Leg::Refund => 1,
        Leg::Settle | Leg::PlanFee | Leg::Expire | Leg::Withdraw | Leg::RevokePromotion => -1,
        _ => 0,
    }
}

fn position(sums: &[LegSum]) -> Position {
    let held = |leg: Leg| match leg {
        Leg::Hold => 1,
        Leg::Settle | Leg::Release | Leg::ReleaseEarly(_) => -1,
        _ => 0,
    };
    let total = |of: &dyn Fn(Leg) -> i128| {
        sums.iter()
            .map(|sum| of(sum.leg) * i128::from(sum.amount.nanos()))
            .sum()
    };
    Position {
        balance: total(&sign),
        held: total(&held),
    }
}

impl Statement {
    fn of(sums: Sums) -> Statement {
        Statement {
            opening: position(&sums.before),
            closing: position(&sums.until),
            moved: sums.within,
            charges: sums.charges,
        }
    }

    /// Returns the sum of a leg's transfers in the month.
    pub fn moved(&self, leg: Leg) -> Credits {
        let found = self.moved.iter().find(|sum| sum.leg == leg);
        found.map_or(Credits::ZERO, |sum| sum.amount)
    }

    /// Returns the number of a leg's transfers in the month.
    pub fn count(&self, leg: Leg) -> u64 {
        let found = self.moved.iter().find(|sum| sum.leg == leg);
        found.map_or(0, |sum| sum.count)
    }

    /// Returns the mismatches between the opening balance plus the movements and the closing
    /// balance, and between the charges of calls and their settlements.
    pub fn faults(&self) -> Vec<String> {
        let movements = position(&self.moved).balance;
        let mut faults = Vec::new();
        if self.opening.balance + movements != self.closing.balance {
            let (opening, closing) = (self.opening.balance, self.closing.balance);
            faults.push(format!(
                "the opening balance of {opening} plus movements of {movements} is not the closing balance of {closing} (nano-credits)"
            ));
        }
        for (leg, of) in [
            (Leg::Settle, (|charge| charge.paid) as fn(&ChargeSum) -> Credits),
            (Leg::SettleIncluded, |charge| charge.included),
        ] {
            let charged: i128 = self
                .charges
                .iter()
                .map(|charge| i128::from(of(charge).nanos()))
                .sum();
            let settled = i128::from(self.moved(leg).nanos());
            if charged != settled {
                faults.push(format!(
                    "usage rows sum to {charged} nano-credits; {settled} were settled"
                ));
            }
        }
        faults
    }
}

/// Returns the statement of a month. The statement of the current month ends now.
pub async fn statement(
    reports: &dyn ReportStore,
    account: AccountId,
    month: Month,
) -> Result<Statement, StorageError> {
    let span = Span {
        from: Some(month.start),
        to: Some(month.end),
    };
    reports.sums(account, span).await.map(Statement::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(leg: Leg, nanos: i64) -> LegSum {
        LegSum {
            leg,
            count: 1,
            amount: Credits::from_nanos(nanos),
        }
    }

    #[test]
    fn months_are_calendar_months_in_utc() {
        for (text, start, end) in [
            ("2026-11", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"),
            ("2026-12", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("2028-02", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"),
        ] {
            let month = Month::parse(text).unwrap();
            assert_eq!([month.start, month.end].map(Timestamp::to_rfc3339), [start, end]);
        }
        for text in [
            "",
            "2026",
            "2026-13",
            "2026-00",
            "26-11",
            "2026-1",
            "2026-11-01",
            "+026-11",
            "9999-12",
        ] {
            assert_eq!(Month::parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_leg_changes_the_balance_or_the_holds() {
        let within = [
            sum(Leg::Grant, 100),
            sum(Leg::Promotion, 10),
            sum(Leg::Hold, 50),
            sum(Leg::Settle, 20),
            sum(Leg::Release, 25),
            sum(Leg::HoldAllowance, 9),
            sum(Leg::SettleIncluded, 7),
            sum(Leg::PlanFee, 30),
            sum(Leg::Refund, 4),
            sum(Leg::RefundAllowance, 3),
            sum(Leg::Expire, 2),
            sum(Leg::Withdraw, 1),
            sum(Leg::RevokePromotion, 5),
        ];
        let charge = ChargeSum {
            model: "acme/model".into(),
            endpoint: "/v1/chat/completions".into(),
            calls: 1,
            paid: Credits::from_nanos(20),
            included: Credits::from_nanos(7),
        };
        let mut until = within.to_vec();
        until.push(sum(Leg::Grant, 1000));
        let valid = Statement::of(Sums {
            before: vec![sum(Leg::Grant, 1000)],
            within: within.to_vec(),
            until,
            charges: vec![charge],
        });
        assert_eq!(valid.faults(), Vec::<String>::new());
        assert_eq!((valid.opening.balance, valid.closing.balance), (1000, 1056));
        assert_eq!(valid.closing.held, 5);
        let mut lost = valid.clone();
        lost.closing.balance -= 1;
        assert_eq!(lost.faults().len(), 1);
        let mut without_calls = valid;
        without_calls.charges.clear();
        assert_eq!(without_calls.faults().len(), 2);
    }
}
