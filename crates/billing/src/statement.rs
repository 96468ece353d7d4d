//! Statements: what an account had, got, spent and lost within a month, out of its transfers alone.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use tollgate_storage::audit::Leg;
use tollgate_storage::report::{ChargeSum, LegSum, Span, Sums};
use tollgate_storage::{ReportStore, StorageError};
use tollgate_types::{AccountId, Credits, Timestamp};

/// A calendar month in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Month {
    /// When it begins.
    pub start: Timestamp,
    /// When the next one begins.
    pub end: Timestamp,
}

impl Month {
    /// The month of a text such as `2026-11`.
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

/// Credits of an account at one instant, in nano-credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// What it has, what calls hold of that included.
    pub balance: i128,
    /// What calls hold of it.
    pub held: i128,
}

/// A month of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// When the month begins.
    pub opening: Position,
    /// When it is over, or now.
    pub closing: Position,
    /// Transfers within the month by step.
    moved: Vec<LegSum>,
    /// What calls that ended within it were charged.
    pub charges: Vec<ChargeSum>,
}

/// How a step changes what an account has: what it adds or takes.
fn sign(leg: Leg) -> i128 {
    match leg {
        Leg::Grant | Leg::Promotion | Leg::Refund => 1,
        Leg::Settle | Leg::PlanFee | Leg::Expire | Leg::Withdraw => -1,
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

    /// What a step moved within the month.
    pub fn moved(&self, leg: Leg) -> Credits {
        let found = self.moved.iter().find(|sum| sum.leg == leg);
        found.map_or(Credits::ZERO, |sum| sum.amount)
    }

    /// How often it did.
    pub fn count(&self, leg: Leg) -> u64 {
        let found = self.moved.iter().find(|sum| sum.leg == leg);
        found.map_or(0, |sum| sum.count)
    }

    /// What does not add up: opening and movements against closing, charges of calls against what was settled.
    pub fn faults(&self) -> Vec<String> {
        let movements = position(&self.moved).balance;
        let mut faults = Vec::new();
        if self.opening.balance + movements != self.closing.balance {
            let (opening, closing) = (self.opening.balance, self.closing.balance);
            faults.push(format!(
                "{opening} nano-credits at the beginning and {movements} moved do not make {closing}"
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
                    "usage rows make {charged} nano-credits, {settled} were settled"
                ));
            }
        }
        faults
    }
}

/// The statement of a month that has begun; of the one that runs, up to now.
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
    fn every_step_moves_what_an_account_has_or_what_is_held() {
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
        ];
        let charge = ChargeSum {
            model: "maker/model".into(),
            endpoint: "/v1/chat/completions".into(),
            calls: 1,
            paid: Credits::from_nanos(20),
            included: Credits::from_nanos(7),
        };
        let mut until = within.to_vec();
        until.push(sum(Leg::Grant, 1000));
        let sound = Statement::of(Sums {
            before: vec![sum(Leg::Grant, 1000)],
            within: within.to_vec(),
            until,
            charges: vec![charge],
        });
        assert_eq!(sound.faults(), Vec::<String>::new());
        assert_eq!((sound.opening.balance, sound.closing.balance), (1000, 1061));
        assert_eq!(sound.closing.held, 5);
        let mut lost = sound.clone();
        lost.closing.balance -= 1;
        assert_eq!(lost.faults().len(), 1);
        let mut without_calls = sound;
        without_calls.charges.clear();
        assert_eq!(without_calls.faults().len(), 2);
    }
}
