//! Conversion between column values and the types of the storage ports, for both engines.
//!
//! Ids are 16 bytes, big-endian, so that the engines sort them like the id types. An invalid value
//! results in [`StorageErrorKind::Corrupt`].

pub(crate) mod admin;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tollgate_storage::usage::hold_ids;
use tollgate_storage::{
    Account, AccountState, Cadence, CallPage, Claim, ClaimOutcome, Compat, Key, KeyMode, KeyState, Limits,
    Link, Lot, LotKind, LotTerms, Media, NewSubscription, NextPlan, Payer, PlanUse, PriceRecord, Product,
    Refund, Result, StorageError, StorageErrorKind, StoredResponse, Subscription, SubscriptionEvent,
    SubscriptionState, TransferHash, UsageFilter, UsagePage, UsageRow,
};
use tollgate_types::id::TransferId;
use tollgate_types::usage::Outcome;
use tollgate_types::{
    AccountId, Credits, HoldId, KeyId, KeyRights, MediaId, MemberId, ModelPatterns, PriceVersion, Prices,
    Principal, RequestId, ResponseId, Scope, Scopes, SubscriptionId, Timestamp, Unit, Usage,
};

use crate::columns::columns;

/// Returns the error `Corrupt` for an invalid stored value.
pub(crate) fn corrupt(what: impl Into<String>) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, what.into())
}

/// Returns the error `Conflict` for an id that already exists.
pub(crate) fn taken(id: impl fmt::Display) -> StorageError {
    StorageError::new(StorageErrorKind::Conflict, format!("{id} already exists"))
}

/// Converts an id to its column: 16 bytes, big-endian.
pub(crate) fn id_bytes(id: u128) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

/// Returns the id as a column, or 16 times `otherwise`: a bound below or above every id.
pub(crate) fn page_edge(id: Option<u128>, otherwise: u8) -> Vec<u8> {
    id.map_or(vec![otherwise; 16], id_bytes)
}

/// Parses an id. Returns `Corrupt` unless it has 16 bytes.
pub(crate) fn id_from(bytes: &[u8]) -> Result<u128> {
    let bytes =
        <[u8; 16]>::try_from(bytes).map_err(|_| corrupt(format!("invalid id of {} bytes", bytes.len())))?;
    Ok(u128::from_be_bytes(bytes))
}

/// Reads a keyed digest from a column. Returns `Corrupt` unless it has 32 bytes.
pub(crate) fn digest_from(column: Vec<u8>) -> Result<[u8; 32]> {
    column.try_into().map_err(|_| corrupt("invalid digest"))
}

/// Converts a price version to its column: the same bits, signed.
pub(crate) fn version_column(version: PriceVersion) -> i64 {
    version.as_u64().cast_signed()
}

/// Reads a price version from a column.
pub(crate) fn version_from(column: i64) -> PriceVersion {
    PriceVersion::from_u64(column.cast_unsigned())
}

/// Converts tokens per minute to their column: the same bits, signed.
pub(crate) fn tpm_column(limits: Limits) -> Option<i64> {
    limits.tpm.map(u64::cast_signed)
}

/// Reads a limit from a column.
pub(crate) fn limit_from(column: Option<i64>) -> Result<Option<u32>> {
    let limit =
        column.map(|limit| u32::try_from(limit).map_err(|_| corrupt(format!("invalid limit {limit}"))));
    limit.transpose()
}

/// Converts a quantity to its column, capped at `i64::MAX`.
pub(crate) fn quantity_column(quantity: u64) -> i64 {
    i64::try_from(quantity).unwrap_or(i64::MAX)
}

/// Reads a quantity from a column.
pub(crate) fn quantity_from(column: i64) -> Result<u64> {
    u64::try_from(column).map_err(|_| corrupt(format!("invalid quantity {column}")))
}

/// Converts prices to their column: JSON with the listed classes, amounts in credits, such as
/// `{"input":"2.5","output":"10"}`.
pub(crate) fn prices_column(prices: &Prices) -> String {
    let listed = prices
        .entries()
        .map(|(name, price)| (name, price.to_string().into()));
    serde_json::Value::Object(listed.collect()).to_string()
}

/// Reads prices from a column.
pub(crate) fn prices_from(column: &str) -> Result<Prices> {
    let unreadable = || corrupt(format!("invalid prices '{column}'"));
    let listed: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(column).map_err(|_| unreadable())?;
    listed
        .iter()
        .try_fold(Prices::default(), |prices, (name, price)| {
            let price = price.as_str().and_then(|text| Credits::from_str(text).ok());
            prices
                .with_named(name, price.ok_or_else(unreadable)?)
                .map_err(|_| unreadable())
        })
}

/// Selects the last of `$4 + 1` usage rows of account `$1` between two ids, newest first, and the
/// row after it.
pub(crate) const SCAN_END: &str = "SELECT id FROM usage_row WHERE account_id = $1 AND id >= $2 AND id <= $3 \
    ORDER BY id DESC LIMIT 2 OFFSET $4";

/// Range of the usage rows that a page of calls reads.
pub(crate) struct CallScan {
    /// Smallest id, inclusive.
    pub(crate) first: u128,
    /// Largest id, inclusive.
    pub(crate) last: u128,
    /// Whether older rows exist.
    pub(crate) has_more: bool,
}

impl CallScan {
    /// Returns the range of a page without a limit; `None` if no id is in it.
    pub(crate) fn of(
        filter: &UsageFilter,
        page: UsagePage,
        test_clock: Option<Duration>,
    ) -> Option<CallScan> {
        let ids = hold_ids(filter.from, filter.to, test_clock);
        let after = page
            .after
            .map_or(Some(u128::MAX), |after| after.as_u128().checked_sub(1));
        let (first, last) = (ids.start().as_u128(), ids.end().as_u128().min(after?));
        (first <= last).then_some(CallScan {
            first,
            last,
            has_more: false,
        })
    }

    /// Ends the range at the first of these ids, the rows of [`SCAN_END`], if there are two.
    pub(crate) fn end_at(&mut self, ids: &[u128]) {
        if let [end, _] = ids {
            (self.first, self.has_more) = (*end, true);
        }
    }

    /// Returns the page of these rows, which are the first `limit + 1` that match.
    pub(crate) fn page(&self, mut rows: Vec<UsageRow>, limit: u32) -> CallPage {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let is_full = rows.len() > limit;
        rows.truncate(limit);
        let next = match is_full {
            true => rows.last().map(|row| row.id),
            false => self.has_more.then(|| HoldId::from_u128(self.first)),
        };
        CallPage { rows, next }
    }
}

/// Selects the last use of each key of account `$1`. Each maximum reads one entry of the index
/// `usage_row_key`.
pub(crate) const KEYS_LAST_USED: &str = "SELECT id, \
    (SELECT max(created_at) FROM usage_row WHERE key_id = api_key.id) AS last_used_at \
    FROM api_key WHERE account_id = $1";

/// Reads a row of [`KEYS_LAST_USED`]; `None` for a key without a usage row.
pub(crate) fn last_use_from(id: &[u8], last_used_at: Option<i64>) -> Result<Option<(KeyId, Timestamp)>> {
    let key = KeyId::from_u128(id_from(id)?);
    Ok(last_used_at.map(|at| (key, Timestamp::from_micros(at))))
}

/// Reads the link of a transfer, or of the end of a chain, from three columns. Returns `None` if
/// they are empty, as before the first transfer, and `Corrupt` if only some are.
pub(crate) fn link_from(
    sequence: Option<i64>,
    previous: Option<&[u8]>,
    hash: Option<&[u8]>,
) -> Result<Option<Link>> {
    let hash_from = |bytes: &[u8]| {
        let hash = <[u8; 32]>::try_from(bytes)
            .map_err(|_| corrupt(format!("invalid hash of {} bytes", bytes.len())));
        hash.map(TransferHash)
    };
    match (sequence.filter(|sequence| *sequence != 0), previous, hash) {
        (Some(sequence), Some(previous), Some(hash)) => Ok(Some(Link {
            sequence,
            previous: hash_from(previous)?,
            hash: hash_from(hash)?,
        })),
        (None, None, None) => Ok(None),
        _ => Err(corrupt("incomplete hash chain entry")),
    }
}

columns! {
    /// A row of `account`.
    pub(crate) struct AccountColumns {
        id: Vec<u8>,
        name: String,
        state: String,
        rpm: Option<i64>,
        tpm: Option<i64>,
        keys: Option<i64>,
        gpus: Option<i64>,
        agents: Option<i64>,
        chats: Option<i64>,
        files: Option<i64>,
        files_gib: Option<i64>,
        batch_tokens: Option<i64>,
        test_clock: Option<i64>,
        created_at: i64,
    }
}

impl TryFrom<AccountColumns> for Account {
    type Error = StorageError;

    fn try_from(columns: AccountColumns) -> Result<Account> {
        Ok(Account {
            id: AccountId::from_u128(id_from(&columns.id)?),
            name: columns.name,
            state: AccountState::parse(&columns.state)
                .ok_or_else(|| corrupt(format!("unknown account state '{}'", columns.state)))?,
            limits: Limits {
                rpm: limit_from(columns.rpm)?,
                tpm: columns.tpm.map(i64::cast_unsigned),
                keys: limit_from(columns.keys)?,
                gpus: limit_from(columns.gpus)?,
                agents: limit_from(columns.agents)?,
                chats: limit_from(columns.chats)?,
                files: limit_from(columns.files)?,
                files_gib: limit_from(columns.files_gib)?,
                batch_tokens: columns.batch_tokens.map(i64::cast_unsigned),
            },
            test_clock: test_clock_from(columns.test_clock)?,
            created_at: Timestamp::from_micros(columns.created_at),
        })
    }
}

/// Converts the offset of a test clock to its column, in microseconds.
pub(crate) fn test_clock_column(account: &Account) -> Result<Option<i64>> {
    let micros = account.test_clock.map(|ahead| i64::try_from(ahead.as_micros()));
    let micros = micros.transpose();
    micros.map_err(|error| StorageError::new(StorageErrorKind::Conflict, error))
}

pub(crate) fn test_clock_from(micros: Option<i64>) -> Result<Option<Duration>> {
    let micros = micros.map(u64::try_from).transpose();
    let micros = micros.map_err(|_| corrupt("negative test clock offset"))?;
    Ok(micros.map(Duration::from_micros))
}

columns! {
    /// A row of `api_key`.
    pub(crate) struct KeyColumns {
        id: Vec<u8>,
        account_id: Vec<u8>,
        name: String,
        digest: Vec<u8>,
        last4: String,
        mode: String,
        compat: String,
        sync: i64,
        state: String,
        created_at: i64,
        expires_at: Option<i64>,
        revoked_at: Option<i64>,
        created_by: Option<Vec<u8>>,
        replaced_by: Option<Vec<u8>>,
        models: Option<String>,
        scopes: Option<String>,
    }
}

/// Returns the columns `models` and `scopes` of a key.
pub(crate) fn rights_columns(rights: &KeyRights) -> (Option<String>, Option<String>) {
    (
        rights.models.as_ref().map(models_column),
        rights.scopes.map(scopes_column),
    )
}

/// Returns the column `models` of a key that is limited to some models.
pub(crate) fn models_column(models: &ModelPatterns) -> String {
    serde_json::json!(models.as_slice()).to_string()
}

/// Returns the column `scopes` of a key that is limited to some scopes.
pub(crate) fn scopes_column(scopes: Scopes) -> String {
    let names: Vec<&str> = scopes.iter().map(Scope::as_str).collect();
    serde_json::json!(names).to_string()
}

/// Returns the rights in the columns of a key. A scope that this version does not know is ignored.
fn rights_from(models: Option<&str>, scopes: Option<&str>) -> Result<KeyRights> {
    let list = |text: &str| -> Result<Vec<String>> {
        serde_json::from_str(text).map_err(|_| corrupt("the rights of a key are not a list"))
    };
    let scopes = scopes.map(list).transpose()?;
    Ok(KeyRights {
        models: models.map(list).transpose()?.map(ModelPatterns::new),
        scopes: scopes.map(|names| names.iter().filter_map(|name| Scope::parse(name)).collect()),
    })
}

impl TryFrom<KeyColumns> for Key {
    type Error = StorageError;

    fn try_from(columns: KeyColumns) -> Result<Key> {
        let digest = columns
            .digest
            .try_into()
            .map_err(|_| corrupt("invalid key digest"))?;
        Ok(Key {
            id: KeyId::from_u128(id_from(&columns.id)?),
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            name: columns.name,
            digest,
            last4: columns.last4,
            mode: KeyMode::parse(&columns.mode)
                .ok_or_else(|| corrupt(format!("unknown key mode '{}'", columns.mode)))?,
            compat: Compat::parse(&columns.compat)
                .ok_or_else(|| corrupt(format!("unknown key compat '{}'", columns.compat)))?,
            sync: columns.sync != 0,
            rights: rights_from(columns.models.as_deref(), columns.scopes.as_deref())?,
            state: KeyState::parse(&columns.state)
                .ok_or_else(|| corrupt(format!("unknown key state '{}'", columns.state)))?,
            created_at: Timestamp::from_micros(columns.created_at),
            expires_at: columns.expires_at.map(Timestamp::from_micros),
            revoked_at: columns.revoked_at.map(Timestamp::from_micros),
            created_by: columns
                .created_by
                .map(|id| id_from(&id).map(MemberId::from_u128))
                .transpose()?,
            replaced_by: columns
                .replaced_by
                .map(|id| id_from(&id).map(KeyId::from_u128))
                .transpose()?,
        })
    }
}

columns! {
    /// A row of `price_version`.
    pub(crate) struct PriceColumns {
        version: i64,
        model: String,
        prices: String,
        created_at: i64,
    }
}

impl TryFrom<PriceColumns> for PriceRecord {
    type Error = StorageError;

    fn try_from(columns: PriceColumns) -> Result<PriceRecord> {
        Ok(PriceRecord {
            version: version_from(columns.version),
            prices: prices_from(&columns.prices)?,
            model: columns.model,
            created_at: Timestamp::from_micros(columns.created_at),
        })
    }
}

columns! {
    /// A row of `response`.
    pub(crate) struct ResponseColumns {
        account_id: Vec<u8>,
        id: Vec<u8>,
        previous_id: Option<Vec<u8>>,
        created_at: i64,
        expires_at: i64,
        content: Vec<u8>,
    }
}

impl TryFrom<ResponseColumns> for StoredResponse {
    type Error = StorageError;

    fn try_from(columns: ResponseColumns) -> Result<StoredResponse> {
        let previous = columns.previous_id.as_deref().map(id_from).transpose()?;
        Ok(StoredResponse {
            id: ResponseId::from_u128(id_from(&columns.id)?),
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            previous: previous.map(ResponseId::from_u128),
            created_at: Timestamp::from_micros(columns.created_at),
            expires_at: Timestamp::from_micros(columns.expires_at),
            content: columns.content,
        })
    }
}

columns! {
    /// A row of `media`.
    pub(crate) struct MediaColumns {
        account_id: Vec<u8>,
        id: Vec<u8>,
        object: Vec<u8>,
        sha256: Vec<u8>,
        bytes: i64,
        mime_type: String,
        width: Option<i64>,
        height: Option<i64>,
        duration: Option<i64>,
        created_at: i64,
        expires_at: i64,
        source_id: Option<Vec<u8>>,
        deleted_at: Option<i64>,
    }
}

impl TryFrom<MediaColumns> for Media {
    type Error = StorageError;

    fn try_from(columns: MediaColumns) -> Result<Media> {
        let sha256 = columns
            .sha256
            .try_into()
            .map_err(|_| corrupt("invalid object digest"))?;
        let duration = columns.duration.map(quantity_from).transpose()?;
        Ok(Media {
            id: MediaId::from_u128(id_from(&columns.id)?),
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            object: id_from(&columns.object)?,
            sha256,
            bytes: quantity_from(columns.bytes)?,
            mime_type: columns.mime_type,
            width: limit_from(columns.width)?,
            height: limit_from(columns.height)?,
            duration: duration.map(Duration::from_micros),
            created_at: Timestamp::from_micros(columns.created_at),
            expires_at: Timestamp::from_micros(columns.expires_at),
            source: columns.source_id.as_deref().map(id_from).transpose()?,
            deleted_at: columns.deleted_at.map(Timestamp::from_micros),
        })
    }
}

/// Converts the duration of a media object to its column, in microseconds.
pub(crate) fn duration_column(duration: Option<Duration>) -> Option<i64> {
    duration.map(|duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
}

columns! {
    /// A claim of another request on an idempotency key.
    pub(crate) struct ClaimColumns {
        fingerprint: Vec<u8>,
        request_id: Vec<u8>,
        content: Option<Vec<u8>>,
    }
}

impl ClaimColumns {
    /// Returns the outcome for another request with the same key.
    pub(crate) fn claimed(self, wanted: &Claim) -> Result<ClaimOutcome> {
        if self.fingerprint != wanted.fingerprint {
            return Ok(ClaimOutcome::Reused);
        }
        Ok(match self.content {
            None => ClaimOutcome::Running,
            Some(content) => ClaimOutcome::Answered {
                request: RequestId::from_u128(id_from(&self.request_id)?),
                content,
            },
        })
    }
}

columns! {
    /// Quantities by unit: the columns named after [`Unit`], or sums of them.
    pub(crate) struct QuantityColumns {
        input: i64,
        cache_read: i64,
        cache_write: i64,
        input_audio: i64,
        output: i64,
        reasoning: i64,
        output_audio: i64,
        cache_write_1h: i64,
        image: i64,
        video: i64,
        audio: i64,
        characters: i64,
        searches: i64,
        input_image: i64,
        cache_read_audio: i64,
    }
}

impl TryFrom<QuantityColumns> for Usage {
    type Error = StorageError;

    fn try_from(columns: QuantityColumns) -> Result<Usage> {
        let in_order = [
            columns.input,
            columns.cache_read,
            columns.cache_write,
            columns.input_audio,
            columns.output,
            columns.reasoning,
            columns.output_audio,
            columns.cache_write_1h,
            columns.image,
            columns.video,
            columns.audio,
            columns.characters,
            columns.searches,
            columns.input_image,
            columns.cache_read_audio,
        ];
        Unit::ALL
            .into_iter()
            .zip(in_order)
            .try_fold(Usage::ZERO, |usage, (unit, column)| {
                Ok(usage.with(unit, quantity_from(column)?))
            })
    }
}

/// Expands to SQL for the canonical model id of a row: the model of its price version. The column
/// `model` contains the id that the caller sent. `-` means no model, as for a refused batch.
macro_rules! canonical_model {
    ($table:literal) => {
        concat!(
            "CASE ",
            $table,
            ".model WHEN '-' THEN '-' ELSE coalesce((SELECT price_version.model FROM price_version \
             WHERE price_version.version = ",
            $table,
            ".price_version), ",
            $table,
            ".model) END"
        )
    };
}
pub(crate) use canonical_model;

columns! {
    /// A row of `usage_row` with two computed columns: `canonical_model`, see [`canonical_model!`],
    /// and `refunded`, the refunded amount. Queries must cast `estimated` to BIGINT.
    pub(crate) struct UsageColumns {
        account_id: Vec<u8>,
        id: Vec<u8>,
        key_id: Option<Vec<u8>>,
        member_id: Option<Vec<u8>>,
        request_id: Vec<u8>,
        endpoint: String,
        model: String,
        canonical_model: String,
        provider: String,
        price_version: i64,
        held: i64,
        charge: i64,
        overrun: i64,
        refunded: i64,
        outcome: String,
        estimated: i64,
        created_at: i64,
        first_at: Option<i64>,
        ended_at: i64,
        included: i64,
        plan_name: Option<String>,
        window_id: Option<Vec<u8>>,
    } with {
        quantities: QuantityColumns,
    }
}

/// Reads the principal from the columns `key_id` and `member_id`.
pub(crate) fn principal_from(key: Option<Vec<u8>>, member: Option<Vec<u8>>) -> Result<Option<Principal>> {
    let id = |column: Option<Vec<u8>>| column.as_deref().map(id_from).transpose();
    let (key, member) = (id(key)?, id(member)?);
    Ok(Principal::from_columns(
        key.map(KeyId::from_u128),
        member.map(MemberId::from_u128),
    ))
}

/// Returns the column `key_id` of a principal.
pub(crate) fn key_column(principal: Option<Principal>) -> Option<Vec<u8>> {
    principal
        .and_then(Principal::key)
        .map(|key| id_bytes(key.as_u128()))
}

/// Returns the column `member_id` of a principal.
pub(crate) fn member_column(principal: Option<Principal>) -> Option<Vec<u8>> {
    principal
        .and_then(Principal::member)
        .map(|member| id_bytes(member.as_u128()))
}

/// Reads the plan from the columns `plan_name` and `window_id`: both or neither.
pub(crate) fn plan_from(name: Option<String>, window: Option<Vec<u8>>) -> Result<Option<PlanUse>> {
    match (name, window) {
        (Some(name), Some(window)) => Ok(Some(PlanUse {
            name: name.into(),
            window: TransferId::from_u128(id_from(&window)?),
        })),
        (None, None) => Ok(None),
        _ => Err(corrupt("only one of 'plan_name' and 'window_id' is set")),
    }
}

columns! {
    /// A row of `credit_lot`.
    pub(crate) struct LotColumns {
        account_id: Vec<u8>,
        id: Vec<u8>,
        kind: String,
        amount: i64,
        remaining: i64,
        expired: i64,
        withdrawn: i64,
        priority: i64,
        expires_at: Option<i64>,
        note: String,
        created_at: i64,
    }
}

impl TryFrom<LotColumns> for Lot {
    type Error = StorageError;

    fn try_from(columns: LotColumns) -> Result<Lot> {
        let kind = LotKind::parse(&columns.kind);
        let priority = u8::try_from(columns.priority);
        Ok(Lot {
            id: TransferId::from_u128(id_from(&columns.id)?),
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            amount: Credits::from_nanos(columns.amount),
            remaining: Credits::from_nanos(columns.remaining),
            expired: Credits::from_nanos(columns.expired),
            withdrawn: Credits::from_nanos(columns.withdrawn),
            terms: LotTerms {
                kind: kind.ok_or_else(|| corrupt(format!("unknown lot kind '{}'", columns.kind)))?,
                priority: priority
                    .map_err(|_| corrupt(format!("invalid lot priority {}", columns.priority)))?,
                expires_at: columns.expires_at.map(Timestamp::from_micros),
                note: columns.note,
            },
            created_at: Timestamp::from_micros(columns.created_at),
        })
    }
}

columns! {
    /// A row of `refund`.
    pub(crate) struct RefundColumns {
        id: Vec<u8>,
        account_id: Vec<u8>,
        hold_id: Vec<u8>,
        credits: i64,
        allowance: i64,
        reason: String,
        created_at: i64,
    }
}

impl TryFrom<RefundColumns> for Refund {
    type Error = StorageError;

    fn try_from(columns: RefundColumns) -> Result<Refund> {
        Ok(Refund {
            id: TransferId::from_u128(id_from(&columns.id)?),
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            hold: HoldId::from_u128(id_from(&columns.hold_id)?),
            credits: Credits::from_nanos(columns.credits),
            allowance: Credits::from_nanos(columns.allowance),
            reason: columns.reason,
            created_at: Timestamp::from_micros(columns.created_at),
        })
    }
}

columns! {
    /// A row of `subscription`.
    pub(crate) struct SubscriptionColumns {
        id: Vec<u8>,
        account_id: Vec<u8>,
        product: String,
        subject: String,
        price: i64,
        cadence: String,
        payer: String,
        allowance: i64,
        anchor: i64,
        period: i64,
        paid_through: i64,
        cancel_at_period_end: i64,
        past_due_since: Option<i64>,
        state: String,
        window_number: Option<i64>,
        next_plan: Option<String>,
        next_cadence: Option<String>,
    }
}

impl TryFrom<SubscriptionColumns> for Subscription {
    type Error = StorageError;

    fn try_from(columns: SubscriptionColumns) -> Result<Subscription> {
        let unknown = |what: &str, name: &str| corrupt(format!("unknown {what} '{name}'"));
        let terms = NewSubscription {
            id: SubscriptionId::from_u128(id_from(&columns.id)?),
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            product: Product::parse(&columns.product).ok_or_else(|| unknown("product", &columns.product))?,
            subject: columns.subject.into(),
            price: Credits::from_nanos(columns.price),
            cadence: Cadence::parse(&columns.cadence).ok_or_else(|| unknown("cadence", &columns.cadence))?,
            payer: Payer::parse(&columns.payer).ok_or_else(|| unknown("payer", &columns.payer))?,
            allowance: Credits::from_nanos(columns.allowance),
            anchor: Timestamp::from_micros(columns.anchor),
            paid_through: Timestamp::from_micros(columns.paid_through),
        };
        let next = match (columns.next_plan, columns.next_cadence) {
            (Some(name), Some(cadence)) => Some(NextPlan {
                name: name.into(),
                cadence: Cadence::parse(&cadence).ok_or_else(|| unknown("cadence", &cadence))?,
            }),
            _ => None,
        };
        Ok(Subscription {
            terms,
            period: columns.period,
            cancel_at_period_end: columns.cancel_at_period_end != 0,
            past_due_since: columns.past_due_since.map(Timestamp::from_micros),
            state: SubscriptionState::parse(&columns.state)
                .ok_or_else(|| unknown("subscription state", &columns.state))?,
            window: columns.window_number,
            next,
        })
    }
}

columns! {
    /// A row of `subscription_event`.
    pub(crate) struct EventColumns {
        number: i64,
        kind: String,
        state: String,
        period: i64,
        at: i64,
    }
}

impl TryFrom<EventColumns> for SubscriptionEvent {
    type Error = StorageError;

    fn try_from(columns: EventColumns) -> Result<SubscriptionEvent> {
        Ok(SubscriptionEvent {
            number: columns.number,
            kind: columns.kind,
            state: SubscriptionState::parse(&columns.state)
                .ok_or_else(|| corrupt(format!("unknown subscription state '{}'", columns.state)))?,
            period: columns.period,
            at: Timestamp::from_micros(columns.at),
        })
    }
}

impl TryFrom<UsageColumns> for UsageRow {
    type Error = StorageError;

    fn try_from(columns: UsageColumns) -> Result<UsageRow> {
        Ok(UsageRow {
            id: HoldId::from_u128(id_from(&columns.id)?),
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            principal: principal_from(columns.key_id, columns.member_id)?,
            request: RequestId::from_u128(id_from(&columns.request_id)?),
            endpoint: Arc::from(columns.endpoint),
            model: Arc::from(columns.canonical_model),
            requested_model: Arc::from(columns.model),
            target: Arc::from(columns.provider),
            price_version: version_from(columns.price_version),
            held: Credits::from_nanos(columns.held),
            charge: Credits::from_nanos(columns.charge),
            included: Credits::from_nanos(columns.included),
            plan: plan_from(columns.plan_name, columns.window_id)?,
            refunded: Credits::from_nanos(columns.refunded),
            overrun: Credits::from_nanos(columns.overrun),
            usage: columns.quantities.try_into()?,
            outcome: Outcome::parse(&columns.outcome)
                .ok_or_else(|| corrupt(format!("outcome '{}'", columns.outcome)))?,
            estimated: columns.estimated != 0,
            created_at: Timestamp::from_micros(columns.created_at),
            first_at: columns.first_at.map(Timestamp::from_micros),
            ended_at: Timestamp::from_micros(columns.ended_at),
        })
    }
}

/// Converts an error of the driver to a [`StorageError`].
pub(crate) fn storage_error(error: sqlx::Error) -> StorageError {
    let kind = match &error {
        sqlx::Error::Database(cause) if !matches!(cause.kind(), sqlx::error::ErrorKind::Other) => {
            StorageErrorKind::Conflict
        }
        sqlx::Error::RowNotFound => StorageErrorKind::NotFound,
        sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::Decode(_)
        | sqlx::Error::TypeNotFound { .. } => StorageErrorKind::Corrupt,
        _ => StorageErrorKind::Unavailable,
    };
    match &error {
        sqlx::Error::Database(cause) if is_disk_full(&**cause) => {
            StorageError::new(kind, "the database cannot be written: its disk is full")
        }
        _ => StorageError::new(kind, error),
    }
}

/// Whether the engine reports a full disk: `SQLITE_FULL`, or `disk_full` of PostgreSQL.
fn is_disk_full(cause: &dyn sqlx::error::DatabaseError) -> bool {
    cause.code().is_some_and(|code| code == "13" || code == "53100")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_round_trip_as_text() {
        let prices = Prices::default()
            .with(Unit::Input, Credits::from_nanos(2_500_000_000))
            .with(Unit::OutputAudio, Credits::ZERO);
        assert_eq!(prices_column(&prices), r#"{"input":"2.5","output_audio":"0"}"#);
        assert_eq!(prices_from(&prices_column(&prices)).unwrap(), prices);
        for text in [
            "",
            "[]",
            r#"{"input":2.5}"#,
            r#"{"words":"1"}"#,
            r#"{"input":"x"}"#,
        ] {
            assert_eq!(
                prices_from(text).unwrap_err().kind,
                StorageErrorKind::Corrupt,
                "{text}"
            );
        }
    }

    #[tokio::test]
    async fn a_full_disk_is_reported_in_plain_words() {
        use sqlx::{ConnectOptions, Executor};

        let mut connection = sqlx::sqlite::SqliteConnectOptions::new()
            .in_memory(true)
            .connect()
            .await
            .unwrap();
        let full = connection
            .execute("PRAGMA max_page_count = 2; CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(100000))")
            .await;
        let error = storage_error(full.unwrap_err());
        assert_eq!(error.kind, StorageErrorKind::Unavailable);
        assert_eq!(
            error.to_string(),
            "the database cannot be written: its disk is full"
        );
    }

    #[test]
    fn ids_are_sixteen_bytes_in_their_own_order() {
        for id in [0, 1, u128::MAX, 1 << 64] {
            assert_eq!(id_from(&id_bytes(id)).unwrap(), id);
        }
        assert!(id_bytes(1) < id_bytes(1 << 127));
        assert_eq!(id_from(&[0; 15]).unwrap_err().kind, StorageErrorKind::Corrupt);
    }
}
