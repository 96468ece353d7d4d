//! The records of the journal and their binary format.
//!
//! A record is a frame: length of the body (u32), CRC-32 of the body (u32), body. The body is the
//! sequence number (u64), the kind (u8) and the fields in the order of the structs. Numbers are
//! little-endian, texts are length (u32) and bytes, options are a byte 0 or 1 before the value.

use std::borrow::Cow;
use std::sync::Arc;

use tollgate_storage::audit::MAX_EARLY_RELEASES;
use tollgate_storage::{NewHold, PlanUse, Refund, Settlement};
use tollgate_types::id::TransferId;
use tollgate_types::usage::Outcome;
use tollgate_types::{
    AccountId, Credits, HoldId, KeyId, MemberId, PriceVersion, Principal, RequestId, SubscriptionId,
    Timestamp, Unit, Usage,
};

/// Size of a frame before its body, in bytes: length and CRC-32.
const FRAME_HEAD: usize = 8;
const HOLD: u8 = 1;
const SETTLE: u8 = 2;
/// A settlement with the first [`TOKEN_CLASSES`]. A `SETTLE` record has only the first
/// [`BASE_CLASSES`].
const SETTLE_WIDE: u8 = 3;
/// Number of classes in a `SETTLE` record. Classes that were added later are zero.
const BASE_CLASSES: usize = 7;
/// Number of classes in `SETTLE_WIDE` records: the token classes before the classes that do not
/// count tokens.
const TOKEN_CLASSES: usize = 8;
/// Number of classes in `SETTLE_ALL_UNITS` records. Later classes use [`SETTLE_PAIRS`].
const LISTED_CLASSES: usize = 12;
// Records with a plan have separate kinds, so journals of versions without plans stay readable.
const HOLD_WITH_PLAN: u8 = 4;
/// A settlement with the first [`TOKEN_CLASSES`], in a closed week.
const SETTLE_IN_CLOSED_WEEK: u8 = 5;
const WINDOW: u8 = 6;
const REFUND: u8 = 7;
const HOLD_OF_LEASE: u8 = 8;
/// A settlement with the first [`LISTED_CLASSES`], tokens and others.
const SETTLE_ALL_UNITS: u8 = 9;
/// A settlement with the first [`LISTED_CLASSES`], in a closed week.
const SETTLE_ALL_UNITS_IN_CLOSED_WEEK: u8 = 10;
const SHRINK: u8 = 11;
/// A hold of a member, with or without a plan or a lease. Holds of keys have the kinds above.
const HOLD_OF_MEMBER: u8 = 12;
/// A settlement with the state of the week and pairs of unit and quantity, for any units.
const SETTLE_PAIRS: u8 = 13;

/// A hold on credits, on a plan's allowance, or on both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) account: AccountId,
    pub(crate) id: HoldId,
    pub(crate) principal: Option<Principal>,
    pub(crate) request: RequestId,
    pub(crate) amount: Credits,
    pub(crate) price_version: PriceVersion,
    pub(crate) model: Arc<str>,
    pub(crate) endpoint: Cow<'static, str>,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    /// The plan that applies, and the part of the amount that its allowance pays.
    pub(crate) plan: Option<Box<PlanShare>>,
    /// The lease from which the hold was taken. Only PostgreSQL has leases, and their holds have no
    /// plan.
    pub(crate) lease: Option<TransferId>,
    /// Credits released early; zero for a new hold.
    pub(crate) returned: Returned,
}

/// Credits that a hold has released before its settlement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Returned {
    pub(crate) amount: Credits,
    pub(crate) times: u8,
}

/// An early release of a part of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shrink {
    pub(crate) account: AccountId,
    pub(crate) hold: HoldId,
    /// Credits that this release returns.
    pub(crate) amount: Credits,
    /// Total of the hold's early releases, including this one.
    pub(crate) returned: Returned,
    pub(crate) at: Timestamp,
}

/// The plan that pays for a part of a hold, and that part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanShare {
    pub(crate) plan: PlanUse,
    pub(crate) allowance: Credits,
}

/// Distribution of a resolved hold, in nano-credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    /// Amount paid from credits.
    pub(crate) paid: i64,
    /// Amount paid from the allowance.
    pub(crate) included: i64,
    /// Amount released to credits.
    pub(crate) released: i64,
    /// Amount returned to the allowance.
    pub(crate) returned: i64,
    /// Unused allowance of a closed week, which is lost.
    pub(crate) breakage: i64,
}

impl Hold {
    /// Returns the id of the API key that made the call; `None` for a member.
    pub(crate) fn key(&self) -> Option<u128> {
        let key = self.principal.and_then(Principal::key);
        key.map(|key| key.as_u128())
    }

    /// Returns the id of the member that made the call; `None` for an API key.
    pub(crate) fn member(&self) -> Option<u128> {
        let member = self.principal.and_then(Principal::member);
        member.map(|member| member.as_u128())
    }

    /// Returns the part that is held from the allowance, in nano-credits.
    pub(crate) fn allowance(&self) -> i64 {
        self.plan.as_ref().map_or(0, |share| share.allowance.nanos())
    }

    /// Returns the part that was initially held from credits, in nano-credits.
    pub(crate) fn credits(&self) -> i64 {
        self.amount.nanos() - self.allowance()
    }

    /// Returns the amount that is still held, in nano-credits.
    pub(crate) fn held(&self) -> i64 {
        self.amount.nanos() - self.returned.amount.nanos()
    }

    /// Returns the early release after which only `needed` is held. Only credits are released, not
    /// the allowance. `None` if there is nothing to release or `MAX_EARLY_RELEASES` is reached.
    pub(crate) fn shrink(&self, needed: Credits, at: Timestamp) -> Option<Shrink> {
        let beyond = self.held() - needed.nanos().max(0);
        let amount = beyond.min(self.held() - self.allowance());
        let before = self.returned;
        (amount > 0 && before.times < MAX_EARLY_RELEASES).then(|| Shrink {
            account: self.account,
            hold: self.id,
            amount: Credits::from_nanos(amount),
            returned: Returned {
                amount: Credits::from_nanos(before.amount.nanos() + amount),
                times: before.times + 1,
            },
            at,
        })
    }

    /// Returns the hold after this early release.
    pub(crate) fn after(&self, shrink: &Shrink) -> Hold {
        Hold {
            returned: shrink.returned,
            ..self.clone()
        }
    }

    /// Distributes the held amount for a charge, which must not exceed the held amount. The
    /// allowance pays first.
    pub(crate) fn split(&self, charge: Credits, week: Week) -> Split {
        let included = charge.nanos().min(self.allowance());
        let paid = charge.nanos() - included;
        let rest = self.allowance() - included;
        let is_open = week == Week::Open;
        Split {
            paid,
            included,
            released: self.held() - self.allowance() - paid,
            returned: if is_open { rest } else { 0 },
            breakage: if is_open { 0 } else { rest },
        }
    }
}

/// State of a hold's week at the time of its settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Week {
    /// The hold has no week, or the week is still open.
    Open,
    /// The week has ended.
    Closed,
}

/// The start of a week, which closes the previous week.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) account: AccountId,
    pub(crate) subscription: SubscriptionId,
    /// Number of the closed week, and the allowance that was left in it.
    pub(crate) closed: Option<(i64, Credits)>,
    /// Number of the opened week, and its allowance.
    pub(crate) opened: (i64, Credits),
    pub(crate) at: Timestamp,
}

impl From<NewHold> for Hold {
    fn from(new: NewHold) -> Hold {
        Hold {
            account: new.account,
            id: new.id,
            principal: new.principal,
            request: new.request,
            amount: new.amount,
            price_version: new.price_version,
            model: new.model,
            endpoint: Cow::Borrowed(new.endpoint),
            created_at: new.created_at,
            expires_at: new.expires_at,
            plan: None,
            lease: None,
            returned: Returned::default(),
        }
    }
}

/// Returns a settlement without charge, for a call whose outcome is unknown.
pub(crate) fn crashed((account, hold): crate::ids::HoldKey, now: Timestamp) -> Settlement {
    Settlement::free(account, hold, Outcome::Crashed, now)
}

/// A decoded record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A hold was created.
    Hold(Hold),
    /// A hold was resolved; the charge is at most the held amount.
    Settle(Settlement, Week),
    /// A week of a plan was opened.
    Window(Window),
    /// A charge was refunded.
    Refund(Refund),
    /// A part of a hold was released early.
    Shrink(Shrink),
}

/// An encoded record. The buffer is reused for the next record.
#[derive(Default)]
pub(crate) struct Frame(Vec<u8>);

impl Frame {
    /// Encodes a hold.
    pub(crate) fn hold(&mut self, seq: u64, hold: &Hold) -> &[u8] {
        let member = hold.member();
        let kind = match (member, &hold.plan, hold.lease) {
            (Some(_), ..) => HOLD_OF_MEMBER,
            (None, Some(_), _) => HOLD_WITH_PLAN,
            (None, None, Some(_)) => HOLD_OF_LEASE,
            (None, None, None) => HOLD,
        };
        let frame = self.begin(seq, kind);
        frame.id(hold.account.as_u128());
        frame.id(hold.id.as_u128());
        frame.optional(hold.key(), Self::id);
        frame.id(hold.request.as_u128());
        frame.number(hold.amount.nanos());
        frame.number(hold.price_version.as_u64().cast_signed());
        frame.text(&hold.model);
        frame.text(&hold.endpoint);
        frame.number(hold.created_at.as_micros());
        frame.number(hold.expires_at.as_micros());
        if let Some(member) = member {
            frame.id(member);
            frame.optional(hold.plan.as_deref(), Self::share);
            frame.optional(hold.lease, |frame, lease| frame.id(lease.as_u128()));
        } else if let Some(share) = &hold.plan {
            frame.share(share);
        } else if let Some(lease) = hold.lease {
            frame.id(lease.as_u128());
        }
        self.seal()
    }

    /// Encodes a settlement.
    pub(crate) fn settle(&mut self, seq: u64, settlement: &Settlement, week: Week) -> &[u8] {
        let has_rest = Unit::ALL[BASE_CLASSES..TOKEN_CLASSES]
            .iter()
            .any(|unit| settlement.usage.get(*unit) > 0);
        let has_later = Unit::ALL[LISTED_CLASSES..]
            .iter()
            .any(|unit| settlement.usage.get(*unit) > 0);
        let (kind, classes) = match (week, settlement.usage.has_non_tokens(), has_rest) {
            _ if has_later => (SETTLE_PAIRS, 0),
            (Week::Closed, true, _) => (SETTLE_ALL_UNITS_IN_CLOSED_WEEK, LISTED_CLASSES),
            (Week::Closed, false, _) => (SETTLE_IN_CLOSED_WEEK, TOKEN_CLASSES),
            (Week::Open, true, _) => (SETTLE_ALL_UNITS, LISTED_CLASSES),
            (Week::Open, false, true) => (SETTLE_WIDE, TOKEN_CLASSES),
            (Week::Open, false, false) => (SETTLE, BASE_CLASSES),
        };
        let frame = self.begin(seq, kind);
        frame.id(settlement.account.as_u128());
        frame.id(settlement.hold.as_u128());
        frame.number(settlement.charge.nanos());
        frame.number(settlement.overrun.nanos());
        if has_later {
            frame.0.push((week == Week::Closed).into());
            frame.pairs(&settlement.usage);
        }
        for unit in Unit::ALL.into_iter().take(classes) {
            frame.number(settlement.usage.get(unit).cast_signed());
        }
        frame.text(settlement.outcome.as_str());
        frame.0.push(settlement.estimated.into());
        frame.text(&settlement.target);
        frame.optional(settlement.first_at, |frame, at| frame.number(at.as_micros()));
        frame.number(settlement.ended_at.as_micros());
        self.seal()
    }

    /// Encodes the change of a week.
    pub(crate) fn window(&mut self, seq: u64, window: &Window) -> &[u8] {
        let frame = self.begin(seq, WINDOW);
        frame.id(window.account.as_u128());
        frame.id(window.subscription.as_u128());
        frame.optional(window.closed, Frame::week);
        frame.week(window.opened);
        frame.number(window.at.as_micros());
        self.seal()
    }

    /// Encodes an early release.
    pub(crate) fn shrink(&mut self, seq: u64, shrink: &Shrink) -> &[u8] {
        let frame = self.begin(seq, SHRINK);
        frame.id(shrink.account.as_u128());
        frame.id(shrink.hold.as_u128());
        frame.number(shrink.amount.nanos());
        frame.number(shrink.returned.amount.nanos());
        frame.0.push(shrink.returned.times);
        frame.number(shrink.at.as_micros());
        self.seal()
    }

    /// Encodes a refund.
    pub(crate) fn refund(&mut self, seq: u64, refund: &Refund) -> &[u8] {
        let frame = self.begin(seq, REFUND);
        frame.id(refund.id.as_u128());
        frame.id(refund.account.as_u128());
        frame.id(refund.hold.as_u128());
        frame.number(refund.credits.nanos());
        frame.number(refund.allowance.nanos());
        frame.text(&refund.reason);
        frame.number(refund.created_at.as_micros());
        self.seal()
    }

    fn week(&mut self, (number, amount): (i64, Credits)) {
        self.number(number);
        self.number(amount.nanos());
    }

    /// Returns the encoded record, frame head included.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn begin(&mut self, seq: u64, kind: u8) -> &mut Frame {
        self.0.clear();
        self.0.resize(FRAME_HEAD, 0);
        self.0.extend_from_slice(&seq.to_le_bytes());
        self.0.push(kind);
        self
    }

    fn seal(&mut self) -> &[u8] {
        let length = u32::try_from(self.0.len() - FRAME_HEAD).unwrap_or(u32::MAX);
        let crc = crc32fast::hash(&self.0[FRAME_HEAD..]);
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0[4..FRAME_HEAD].copy_from_slice(&crc.to_le_bytes());
        &self.0
    }

    fn id(&mut self, id: u128) {
        self.0.extend_from_slice(&id.to_le_bytes());
    }

    fn number(&mut self, number: i64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn pairs(&mut self, usage: &Usage) {
        self.0.push(u8::try_from(usage.iter().count()).unwrap_or(u8::MAX));
        for (unit, quantity) in usage.iter() {
            self.0.push(unit as u8);
            self.number(quantity.cast_signed());
        }
    }

    fn share(&mut self, share: &PlanShare) {
        self.text(&share.plan.name);
        self.id(share.plan.window.as_u128());
        self.number(share.allowance.nanos());
    }

    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Frame, T)) {
        self.0.push(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }
}

/// The result of reading the next frame of a segment.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "only one value exists at a time")]
pub(crate) enum NextRecord {
    /// A complete record and its sequence number.
    Record(u64, Record),
    /// A complete frame whose body cannot be decoded.
    Unknown,
    /// No frame follows. `torn` is the number of remaining bytes; zero if they are unused.
    End { torn: usize },
}

/// Reads the next record and advances `bytes` past it.
pub(crate) fn read(bytes: &mut &[u8]) -> NextRecord {
    let Some((body, rest)) = frame(bytes) else {
        let torn = if is_unused(bytes) { 0 } else { bytes.len() };
        return NextRecord::End { torn };
    };
    *bytes = rest;
    match decode(&mut Fields(body)) {
        Some((seq, record)) => NextRecord::Record(seq, record),
        None => NextRecord::Unknown,
    }
}

/// Whether no record starts here. The first bytes of a record are written last, and its length is
/// never zero.
fn is_unused(bytes: &[u8]) -> bool {
    bytes.iter().take(size_of::<u32>()).all(|byte| *byte == 0)
}

fn frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    // Unwritten bytes are zeros, which are not a frame.
    let (body, rest) = rest
        .split_at_checked(length)
        .filter(|(body, _)| !body.is_empty())?;
    (crc32fast::hash(body) == u32::from_le_bytes(*crc)).then_some((body, rest))
}

fn decode(fields: &mut Fields<'_>) -> Option<(u64, Record)> {
    let seq = fields.number()?.cast_unsigned();
    let record = match fields.byte()? {
        HOLD => Record::Hold(decode_hold(fields)?),
        HOLD_WITH_PLAN => {
            let hold = decode_hold(fields)?;
            let plan = Some(Box::new(decode_share(fields)?));
            Record::Hold(Hold { plan, ..hold })
        }
        HOLD_OF_LEASE => {
            let hold = decode_hold(fields)?;
            let lease = Some(TransferId::from_u128(fields.id()?));
            Record::Hold(Hold { lease, ..hold })
        }
        HOLD_OF_MEMBER => {
            let hold = decode_hold(fields)?;
            Record::Hold(Hold {
                principal: Some(Principal::Member(MemberId::from_u128(fields.id()?))),
                plan: fields.optional(decode_share)?.map(Box::new),
                lease: fields.optional(Fields::id)?.map(TransferId::from_u128),
                ..hold
            })
        }
        SETTLE => decode_settle(fields, BASE_CLASSES, Week::Open)?,
        SETTLE_WIDE => decode_settle(fields, TOKEN_CLASSES, Week::Open)?,
        SETTLE_IN_CLOSED_WEEK => decode_settle(fields, TOKEN_CLASSES, Week::Closed)?,
        SETTLE_ALL_UNITS => decode_settle(fields, LISTED_CLASSES, Week::Open)?,
        SETTLE_ALL_UNITS_IN_CLOSED_WEEK => decode_settle(fields, LISTED_CLASSES, Week::Closed)?,
        SETTLE_PAIRS => decode_settle_pairs(fields)?,
        WINDOW => Record::Window(decode_window(fields)?),
        REFUND => Record::Refund(decode_refund(fields)?),
        SHRINK => Record::Shrink(decode_shrink(fields)?),
        _ => return None,
    };
    fields.0.is_empty().then_some((seq, record))
}

fn decode_hold(fields: &mut Fields<'_>) -> Option<Hold> {
    Some(Hold {
        account: AccountId::from_u128(fields.id()?),
        id: HoldId::from_u128(fields.id()?),
        principal: fields
            .optional(Fields::id)?
            .map(KeyId::from_u128)
            .map(Principal::Key),
        request: RequestId::from_u128(fields.id()?),
        amount: Credits::from_nanos(fields.number()?),
        price_version: PriceVersion::from_u64(fields.number()?.cast_unsigned()),
        model: fields.text()?.into(),
        endpoint: Cow::Owned(fields.text()?.to_owned()),
        created_at: Timestamp::from_micros(fields.number()?),
        expires_at: Timestamp::from_micros(fields.number()?),
        plan: None,
        lease: None,
        returned: Returned::default(),
    })
}

fn decode_share(fields: &mut Fields<'_>) -> Option<PlanShare> {
    Some(PlanShare {
        plan: PlanUse {
            name: fields.text()?.into(),
            window: TransferId::from_u128(fields.id()?),
        },
        allowance: Credits::from_nanos(fields.number()?),
    })
}

fn decode_window(fields: &mut Fields<'_>) -> Option<Window> {
    Some(Window {
        account: AccountId::from_u128(fields.id()?),
        subscription: SubscriptionId::from_u128(fields.id()?),
        closed: fields.optional(Fields::week)?,
        opened: fields.week()?,
        at: Timestamp::from_micros(fields.number()?),
    })
}

fn decode_shrink(fields: &mut Fields<'_>) -> Option<Shrink> {
    Some(Shrink {
        account: AccountId::from_u128(fields.id()?),
        hold: HoldId::from_u128(fields.id()?),
        amount: Credits::from_nanos(fields.number()?),
        returned: Returned {
            amount: Credits::from_nanos(fields.number()?),
            times: fields.byte()?,
        },
        at: Timestamp::from_micros(fields.number()?),
    })
}

fn decode_refund(fields: &mut Fields<'_>) -> Option<Refund> {
    Some(Refund {
        id: TransferId::from_u128(fields.id()?),
        account: AccountId::from_u128(fields.id()?),
        hold: HoldId::from_u128(fields.id()?),
        credits: Credits::from_nanos(fields.number()?),
        allowance: Credits::from_nanos(fields.number()?),
        reason: fields.text()?.to_owned(),
        created_at: Timestamp::from_micros(fields.number()?),
    })
}

/// Decodes a settlement with the first `classes` units.
fn decode_settle(fields: &mut Fields<'_>, classes: usize, week: Week) -> Option<Record> {
    let usage = |fields: &mut Fields<'_>| {
        Unit::ALL[..classes].iter().try_fold(Usage::ZERO, |usage, unit| {
            Some(usage.with(*unit, fields.number()?.cast_unsigned()))
        })
    };
    Some(Record::Settle(decode_settlement(fields, usage)?, week))
}

fn decode_settle_pairs(fields: &mut Fields<'_>) -> Option<Record> {
    let mut week = Week::Open;
    let settlement = decode_settlement(fields, |fields| {
        if fields.byte()? == 1 {
            week = Week::Closed;
        }
        (0..fields.byte()?).try_fold(Usage::ZERO, |usage, _| {
            let unit = Unit::ALL.get(usize::from(fields.byte()?))?;
            Some(usage.with(*unit, fields.number()?.cast_unsigned()))
        })
    });
    Some(Record::Settle(settlement?, week))
}

fn decode_settlement<'a>(
    fields: &mut Fields<'a>,
    usage: impl FnOnce(&mut Fields<'a>) -> Option<Usage>,
) -> Option<Settlement> {
    Some(Settlement {
        account: AccountId::from_u128(fields.id()?),
        hold: HoldId::from_u128(fields.id()?),
        charge: Credits::from_nanos(fields.number()?),
        overrun: Credits::from_nanos(fields.number()?),
        usage: usage(fields)?,
        outcome: Outcome::parse(fields.text()?)?,
        estimated: fields.byte()? == 1,
        target: fields.text()?.into(),
        first_at: fields.optional(Fields::number)?.map(Timestamp::from_micros),
        ended_at: Timestamp::from_micros(fields.number()?),
    })
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (chunk, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*chunk)
    }

    fn id(&mut self) -> Option<u128> {
        self.chunk().map(u128::from_le_bytes)
    }

    fn number(&mut self) -> Option<i64> {
        self.chunk().map(i64::from_le_bytes)
    }

    fn week(&mut self) -> Option<(i64, Credits)> {
        Some((self.number()?, Credits::from_nanos(self.number()?)))
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(u32::from_le_bytes(self.chunk()?)).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold() -> Hold {
        Hold {
            account: AccountId::from_u128(u128::MAX),
            id: HoldId::from_u128(7),
            principal: None,
            request: RequestId::from_u128(8),
            amount: Credits::MAX,
            price_version: PriceVersion::from_u64(u64::MAX),
            model: Arc::from("vendor/größer"),
            endpoint: Cow::Borrowed("/v1/chat/completions"),
            created_at: Timestamp::from_micros(-1),
            expires_at: Timestamp::from_micros(i64::MAX),
            plan: None,
            lease: None,
            returned: Returned::default(),
        }
    }

    fn with_plan(allowance: i64) -> Hold {
        let plan = PlanUse {
            name: Arc::from("lite"),
            window: TransferId::from_u128(11),
        };
        let allowance = Credits::from_nanos(allowance);
        let plan = Some(Box::new(PlanShare { plan, allowance }));
        Hold {
            amount: Credits::from_nanos(10),
            plan,
            ..hold()
        }
    }

    /// Columns: allowance part of a hold of 10, charge, week, and the expected split: paid,
    /// included, released, returned, breakage.
    #[test]
    fn allowance_pays_first_and_parts_return_to_their_source() {
        for (allowance, charge, week, [paid, included, released, returned, breakage]) in [
            (0, 4, Week::Open, [4, 0, 6, 0, 0]),
            (10, 4, Week::Open, [0, 4, 0, 6, 0]),
            (10, 4, Week::Closed, [0, 4, 0, 0, 6]),
            (7, 4, Week::Open, [0, 4, 3, 3, 0]),
            (4, 7, Week::Open, [3, 4, 3, 0, 0]),
            (4, 7, Week::Closed, [3, 4, 3, 0, 0]),
            (4, 0, Week::Closed, [0, 0, 6, 0, 4]),
            (4, 10, Week::Open, [6, 4, 0, 0, 0]),
        ] {
            let expected = Split {
                paid,
                included,
                released,
                returned,
                breakage,
            };
            let split = with_plan(allowance).split(Credits::from_nanos(charge), week);
            assert_eq!(split, expected, "{allowance} {charge}");
        }
    }

    /// Columns: allowance part of a hold of 10, amount released before, needed amount, expected
    /// release. Only credits are released.
    #[test]
    fn unneeded_credits_are_released_once() {
        for (allowance, before, needed, expected) in [
            (0, 0, 4, Some(6)),
            (0, 3, 4, Some(3)),
            (0, 6, 4, None),
            (0, 0, 10, None),
            (0, 0, 11, None),
            (0, 0, -1, Some(10)),
            (7, 0, 4, Some(3)),
            (7, 3, 4, None),
            (10, 0, 0, None),
        ] {
            let mut hold = with_plan(allowance);
            hold.returned.amount = Credits::from_nanos(before);
            let shrink = hold.shrink(Credits::from_nanos(needed), Timestamp::from_micros(1));
            let amount = shrink.as_ref().map(|shrink| shrink.amount.nanos());
            assert_eq!(amount, expected, "{allowance} {before} {needed}");
            if let Some(shrink) = shrink {
                let left = hold.after(&shrink);
                assert_eq!(left.held(), hold.held() - shrink.amount.nanos());
                let split = left.split(Credits::from_nanos(left.held()), Week::Open);
                assert_eq!((split.released, split.returned), (0, 0));
                assert_eq!(
                    left.split(Credits::ZERO, Week::Open).released,
                    left.held() - allowance
                );
            }
        }
        let mut often = hold();
        often.returned.times = MAX_EARLY_RELEASES;
        assert_eq!(often.shrink(Credits::ZERO, Timestamp::from_micros(1)), None);
    }

    #[test]
    fn shrink_records_round_trip() {
        let shrink = Shrink {
            account: AccountId::from_u128(1),
            hold: HoldId::from_u128(2),
            amount: Credits::from_nanos(3),
            returned: Returned {
                amount: Credits::from_nanos(4),
                times: MAX_EARLY_RELEASES,
            },
            at: Timestamp::from_micros(-5),
        };
        let bytes = Frame::default().shrink(1, &shrink).to_vec();
        let mut rest = bytes.as_slice();
        assert_eq!(read(&mut rest), NextRecord::Record(1, Record::Shrink(shrink)));
        assert_eq!(read(&mut rest), NextRecord::End { torn: 0 });
    }

    #[test]
    fn records_of_plans_round_trip() {
        let window = Window {
            account: AccountId::from_u128(1),
            subscription: SubscriptionId::from_u128(2),
            closed: Some((3, Credits::from_nanos(4))),
            opened: (5, Credits::from_nanos(6)),
            at: Timestamp::from_micros(7),
        };
        let first = Window {
            closed: None,
            ..window.clone()
        };
        let mut frame = Frame::default();
        let mut bytes = frame.window(1, &window).to_vec();
        bytes.extend_from_slice(frame.window(2, &first));
        bytes.extend_from_slice(frame.hold(3, &with_plan(4)));
        bytes.extend_from_slice(frame.settle(4, &settlement(), Week::Closed));
        let mut rest = bytes.as_slice();
        assert_eq!(read(&mut rest), NextRecord::Record(1, Record::Window(window)));
        assert_eq!(read(&mut rest), NextRecord::Record(2, Record::Window(first)));
        assert_eq!(read(&mut rest), NextRecord::Record(3, Record::Hold(with_plan(4))));
        assert_eq!(
            read(&mut rest),
            NextRecord::Record(4, Record::Settle(settlement(), Week::Closed))
        );
        assert_eq!(read(&mut rest), NextRecord::End { torn: 0 });
    }

    #[test]
    fn records_of_refunds_round_trip() {
        let refund = Refund {
            id: TransferId::from_u128(1),
            account: AccountId::from_u128(2),
            hold: HoldId::from_u128(3),
            credits: Credits::from_nanos(4),
            allowance: Credits::ZERO,
            reason: "größer".to_owned(),
            created_at: Timestamp::from_micros(-5),
        };
        let bytes = Frame::default().refund(1, &refund).to_vec();
        let mut rest = bytes.as_slice();
        assert_eq!(read(&mut rest), NextRecord::Record(1, Record::Refund(refund)));
        assert_eq!(read(&mut rest), NextRecord::End { torn: 0 });
    }

    /// Calls without a plan are encoded as in versions without plans.
    #[test]
    fn calls_without_a_plan_keep_their_record_kinds() {
        let mut frame = Frame::default();
        assert_eq!(frame.hold(1, &hold())[FRAME_HEAD + 8], 1);
        assert_eq!(frame.settle(1, &settlement(), Week::Open)[FRAME_HEAD + 8], 2);
    }

    fn settlement() -> Settlement {
        Settlement {
            hold: HoldId::from_u128(7),
            account: AccountId::from_u128(1),
            charge: Credits::from_nanos(3),
            overrun: Credits::ZERO,
            usage: Usage::tokens(u64::MAX, 1),
            outcome: Outcome::ClientGone,
            estimated: true,
            target: Arc::from(""),
            first_at: Some(Timestamp::from_micros(5)),
            ended_at: Timestamp::from_micros(6),
        }
    }

    fn two_frames() -> Vec<u8> {
        let mut frame = Frame::default();
        let mut bytes = frame.hold(41, &hold()).to_vec();
        bytes.extend_from_slice(frame.settle(42, &settlement(), Week::Open));
        bytes
    }

    #[test]
    fn records_round_trip() {
        let (with_key, without_first) = (
            Hold {
                principal: Some(Principal::Key(KeyId::from_u128(9))),
                ..hold()
            },
            Settlement {
                first_at: None,
                ..settlement()
            },
        );
        let mut bytes = two_frames();
        bytes.extend_from_slice(Frame::default().hold(43, &with_key));
        bytes.extend_from_slice(Frame::default().settle(44, &without_first, Week::Open));
        let mut rest = bytes.as_slice();
        assert_eq!(read(&mut rest), NextRecord::Record(41, Record::Hold(hold())));
        assert_eq!(
            read(&mut rest),
            NextRecord::Record(42, Record::Settle(settlement(), Week::Open))
        );
        assert_eq!(read(&mut rest), NextRecord::Record(43, Record::Hold(with_key)));
        assert_eq!(
            read(&mut rest),
            NextRecord::Record(44, Record::Settle(without_first, Week::Open))
        );
        assert_eq!(read(&mut rest), NextRecord::End { torn: 0 });
    }

    /// A hold of a member has a separate kind, so journals of versions without members stay
    /// readable.
    #[test]
    fn holds_of_members_round_trip() {
        let member = Some(Principal::Member(MemberId::from_u128(10)));
        let lease = Some(TransferId::from_u128(12));
        for (plain, kind) in [
            (hold(), HOLD),
            (with_plan(4), HOLD_WITH_PLAN),
            (Hold { lease, ..hold() }, HOLD_OF_LEASE),
        ] {
            let of_member = Hold {
                principal: member,
                ..plain.clone()
            };
            for (hold, kind) in [(plain, kind), (of_member, HOLD_OF_MEMBER)] {
                let bytes = Frame::default().hold(1, &hold).to_vec();
                assert_eq!(bytes[FRAME_HEAD + size_of::<u64>()], kind);
                assert_eq!(
                    read(&mut bytes.as_slice()),
                    NextRecord::Record(1, Record::Hold(hold))
                );
            }
        }
    }

    #[test]
    fn later_classes_use_the_wide_record() {
        let base = Frame::default().settle(1, &settlement(), Week::Open).to_vec();
        let hour = Settlement {
            usage: settlement().usage.with(Unit::CacheWriteHour, 3),
            ..settlement()
        };
        let wide = Frame::default().settle(2, &hour, Week::Open).to_vec();
        // Records without the added classes have their original length.
        assert_eq!(wide.len(), base.len() + size_of::<i64>());
        let kind = |frame: &[u8]| frame[FRAME_HEAD + size_of::<u64>()];
        assert_eq!((kind(&base), kind(&wide)), (SETTLE, SETTLE_WIDE));
        assert_eq!(
            read(&mut wide.as_slice()),
            NextRecord::Record(2, Record::Settle(hour, Week::Open))
        );
    }

    /// Records with units that earlier versions know have the kinds and lengths of these versions.
    #[test]
    fn later_units_use_a_record_of_pairs() {
        let listed = Settlement {
            usage: settlement().usage.with(Unit::Character, 3),
            ..settlement()
        };
        let later = Unit::ALL[LISTED_CLASSES..].iter().map(|unit| Settlement {
            usage: settlement().usage.with(*unit, 2_000_000),
            ..settlement()
        });
        let later: Vec<Settlement> = later.collect();
        let kind = |frame: &[u8]| frame[FRAME_HEAD + size_of::<u64>()];
        let mut frame = Frame::default();
        let base = frame.settle(1, &settlement(), Week::Open).len();
        for (week, expected) in [
            (Week::Open, SETTLE_ALL_UNITS),
            (Week::Closed, SETTLE_ALL_UNITS_IN_CLOSED_WEEK),
        ] {
            let bytes = frame.settle(1, &listed, week);
            let more_classes = LISTED_CLASSES - BASE_CLASSES;
            assert_eq!(
                (kind(bytes), bytes.len()),
                (expected, base + more_classes * size_of::<i64>())
            );
            for later in &later {
                let bytes = frame.settle(2, later, week).to_vec();
                assert_eq!(kind(&bytes), SETTLE_PAIRS);
                assert_eq!(
                    read(&mut bytes.as_slice()),
                    NextRecord::Record(2, Record::Settle(later.clone(), week))
                );
            }
        }
    }

    #[test]
    fn torn_tails_are_detected() {
        let (whole, first) = (two_frames(), Frame::default().hold(41, &hold()).len());
        for end in first + 1..whole.len() {
            let mut rest = &whole[..end];
            assert_eq!(read(&mut rest), NextRecord::Record(41, Record::Hold(hold())));
            assert_eq!(read(&mut rest), NextRecord::End { torn: end - first }, "{end}");
        }
    }

    #[test]
    fn partial_frames_are_ignored() {
        let mut bytes = two_frames();
        bytes.resize(bytes.len() + 64, 0);
        let unfinished = bytes.len() - 60;
        bytes[unfinished..].fill(7);
        let mut rest = bytes.as_slice();
        assert!(matches!(read(&mut rest), NextRecord::Record(41, _)));
        assert!(matches!(read(&mut rest), NextRecord::Record(42, _)));
        assert_eq!(read(&mut rest), NextRecord::End { torn: 0 });
    }

    #[test]
    fn flipped_bits_are_detected() {
        let whole = Frame::default().settle(42, &settlement(), Week::Open).to_vec();
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(read(&mut bytes.as_slice()), NextRecord::End { .. }),
                "{bit}"
            );
        }
    }
}
