//! Prices: which are in force and which were, and whether new ones can be meant. The prices themselves are in the settings;
//! what is kept is from when on which of them counted.

use std::collections::{BTreeMap, HashMap};

use serde_json::json;
use tollgate_catalog::lint::{Jump, jumps};
use tollgate_catalog::{Snapshot, price_version};
use tollgate_storage::{PriceChange, PriceRecord};
use tollgate_types::{AuditId, Credits, Error, ErrorCode, PriceVersion, Prices};

use super::Actor;
use super::audited::{Deed, write_down};
use super::view::Reply;
use super::view::prices::{MovedView, PriceChangeView, PriceCheckView, PriceView};
use crate::assemble::price_records;
use crate::wiring::Domains;

/// Changes of a model's prices that are shown.
const SHOWN: u32 = 100;
/// Faults that a refusal names.
const NAMED: usize = 3;

/// Prices by their written names.
pub type PriceTable = BTreeMap<String, Credits>;

/// Prices by their written names.
pub(super) fn table(prices: &Prices) -> PriceTable {
    prices.entries().collect()
}

/// The prices of every model of a snapshot.
pub fn tables(snapshot: &Snapshot) -> BTreeMap<String, PriceTable> {
    let models = snapshot.models().iter();
    models
        .map(|model| (model.id.to_string(), table(&model.prices)))
        .collect()
}

pub(super) async fn list(domains: &Domains) -> Result<Reply, Error> {
    let records = domains.storage.prices.in_force().await.map_err(Error::internal)?;
    Ok(Reply::Prices(records.iter().map(PriceView::of).collect()))
}

pub(super) async fn history(domains: &Domains, model: &str) -> Result<Reply, Error> {
    let changes = domains.storage.prices.history(model, SHOWN).await;
    let changes = changes.map_err(Error::internal)?;
    if changes.is_empty() {
        let message = "No model of this name ever had prices here.";
        return Err(Error::new(ErrorCode::NotFound, message));
    }
    let view = |(change, record): &(PriceChange, PriceRecord)| PriceChangeView::of(change, record);
    Ok(Reply::PriceHistory(changes.iter().map(view).collect()))
}

/// A model whose prices would be others.
struct Moved {
    model: String,
    version: PriceVersion,
    before: Option<PriceRecord>,
    after: Prices,
}

impl Moved {
    fn jumps(&self) -> Vec<Jump> {
        let before = self.before.as_ref();
        before.map_or_else(Vec::new, |before| jumps(&before.prices, &self.after))
    }

    fn view(&self) -> MovedView {
        let told = |jump: Jump| format!("{}: {} to {}", jump.class, jump.before, jump.after);
        MovedView {
            model: self.model.clone(),
            version: self.version.to_string(),
            before: self.before.as_ref().map(|record| table(&record.prices)),
            after: table(&self.after),
            jumps: self.jumps().into_iter().map(told).collect(),
        }
    }
}

async fn moved(
    domains: &Domains,
    proposed: impl Iterator<Item = (String, Prices)>,
) -> Result<Vec<Moved>, Error> {
    let in_force = domains.storage.prices.in_force().await.map_err(Error::internal)?;
    let mut in_force: HashMap<String, PriceRecord> = in_force
        .into_iter()
        .map(|record| (record.model.clone(), record))
        .collect();
    let compare = |(model, after): (String, Prices)| Moved {
        version: price_version(&model, &after),
        before: in_force.remove(&model),
        model,
        after,
    };
    let is_other = |moved: &Moved| {
        let before = moved.before.as_ref();
        before.is_none_or(|before| before.version != moved.version)
    };
    Ok(proposed.map(compare).filter(is_other).collect())
}

/// Compares prices with those in force; with `force` they are in force from now on, however far they are.
pub(super) async fn check(
    domains: &Domains,
    actor: &str,
    proposed: BTreeMap<String, PriceTable>,
    force: bool,
) -> Result<Reply, Error> {
    let mut parsed = Vec::new();
    for (model, named) in proposed {
        let prices = named
            .into_iter()
            .try_fold(Prices::default(), |prices, (name, price)| {
                prices.with_named(&name, price)
            });
        let prices = prices.map_err(|error| Error::new(ErrorCode::InvalidParameter, error.to_string()))?;
        parsed.push((model, prices));
    }
    let moved = moved(domains, parsed.into_iter()).await?;
    let changes: Vec<MovedView> = moved.iter().map(Moved::view).collect();
    let clean = changes.iter().all(|change| change.jumps.is_empty());
    if force {
        let now = domains.clock.now();
        let records = moved.iter().map(|moved| PriceRecord {
            version: moved.version,
            model: moved.model.clone(),
            prices: moved.after,
            created_at: now,
        });
        put(domains, actor, records.collect(), &moved).await?;
    }
    Ok(Reply::PriceCheck(PriceCheckView {
        clean,
        forced: force,
        changes,
    }))
}

/// Puts the prices of a snapshot in force, so that every charge can be traced, and writes down what became another price.
/// Nothing is put in force when one is too far from what it was.
pub async fn put_in_force(domains: &Domains, snapshot: &Snapshot, actor: &Actor) -> Result<(), Error> {
    let models = snapshot.models().iter();
    let proposed = models.map(|model| (model.id.to_string(), model.prices));
    let moved = moved(domains, proposed).await?;
    let far: Vec<String> = moved.iter().flat_map(told).collect();
    if !far.is_empty() {
        let named = far.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
        let more = match far.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let message = format!(
            "prices move more than tenfold: {named}{more}. If that is meant, run `tollgate prices check --force` with the same settings first"
        );
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("prices"));
    }
    let records = price_records(snapshot, domains.clock.now());
    put(domains, actor.name(), records, &moved).await?;
    for moved in moved.iter().filter(|moved| moved.before.is_some()) {
        let view = moved.view();
        let deed = Deed {
            action: "prices.change",
            object: moved.model.clone(),
            before: view.before.map(|prices| json!(prices)),
            after: Some(json!(view.after)),
            ..Deed::default()
        };
        write_down(domains, actor, deed, "done").await?;
    }
    Ok(())
}

fn told(moved: &Moved) -> Vec<String> {
    let model = &moved.model;
    let jumps = moved.jumps().into_iter();
    jumps
        .map(|jump| format!("{model} {} from {} to {}", jump.class, jump.before, jump.after))
        .collect()
}

async fn put(
    domains: &Domains,
    actor: &str,
    records: Vec<PriceRecord>,
    moved: &[Moved],
) -> Result<(), Error> {
    let now = domains.clock.now();
    let change = |moved: &Moved| PriceChange {
        id: AuditId::from_u128(domains.ids.next(now)),
        model: moved.model.clone(),
        version: moved.version,
        at: now,
        actor: actor.to_owned(),
    };
    let changes = moved.iter().map(change).collect();
    let stored = domains.storage.prices.put_in_force(records, changes).await;
    stored.map_err(Error::internal)
}
