//! Commands on prices: current prices, their history, and the check of new ones. The settings
//! define the prices. The storage records when each version of the prices took effect.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_catalog::lint::{Jump, jumps};
use tollgate_catalog::{COMPOSITION, Model, Snapshot, composition_version, price_version};
use tollgate_storage::{PriceChange, PriceRecord};
use tollgate_types::{AuditId, Credits, Error, ErrorCode, PriceVersion, Prices, Timestamp};

use crate::audited::{AuditRecord, write_audit_record};
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::Permission;
use crate::view::prices::{MovedView, PriceChangeView, PriceCheckView, PriceView};
use crate::{Actor, Operations};

/// Maximum number of listed price changes.
const MAX_HISTORY: u32 = 100;
/// Maximum number of price jumps that an error message lists.
const MAX_NAMED_JUMPS: usize = 3;

/// Prices in credits per million units, by the names that the settings use.
pub type PriceTable = BTreeMap<String, Credits>;

/// Returns prices by the names that the settings use.
pub(crate) fn table(prices: &Prices) -> PriceTable {
    prices.entries().collect()
}

/// Returns the prices of every model of a snapshot, by model id.
pub fn tables(snapshot: &Snapshot) -> BTreeMap<String, PriceTable> {
    let models = snapshot.models().iter();
    models
        .map(|model| (model.id.to_string(), table(&model.prices)))
        .collect()
}

/// Lists the current prices of all models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListPrices;

impl Operation for ListPrices {
    const NAME: &'static str = "list_prices";
    type Reply = Vec<PriceView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let records = operations
            .storage
            .prices
            .active()
            .await
            .map_err(Error::internal)?;
        Ok(records.iter().map(PriceView::of).collect::<Vec<_>>().into())
    }
}

/// Returns the price changes of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowPrices {
    /// Id of the model.
    pub model: String,
}

impl Operation for ShowPrices {
    const NAME: &'static str = "show_prices";
    type Reply = Vec<PriceChangeView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let changes = operations.storage.prices.history(&self.model, MAX_HISTORY).await;
        let changes = changes.map_err(Error::internal)?;
        if changes.is_empty() {
            let message = "No prices are recorded for a model with this id.";
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        let view = |(change, record): &(PriceChange, PriceRecord)| PriceChangeView::of(change, record);
        Ok(changes.iter().map(view).collect::<Vec<_>>().into())
    }
}

/// A model whose proposed prices differ from the current ones.
struct MovedPrice {
    model: String,
    version: PriceVersion,
    before: Option<PriceRecord>,
    after: Prices,
}

impl MovedPrice {
    fn jumps(&self) -> Vec<Jump> {
        let before = self.before.as_ref();
        before.map_or_else(Vec::new, |before| jumps(&before.prices, &self.after))
    }

    fn view(&self) -> MovedView {
        let describe_jumps = |jump: Jump| format!("{}: {} to {}", jump.class, jump.before, jump.after);
        MovedView {
            model: self.model.clone(),
            version: self.version.to_string(),
            before: self.before.as_ref().map(|record| table(&record.prices)),
            after: table(&self.after),
            jumps: self.jumps().into_iter().map(describe_jumps).collect(),
        }
    }
}

async fn moved(
    operations: &Operations,
    proposed: impl Iterator<Item = (String, Prices)>,
) -> Result<Vec<MovedPrice>, Error> {
    let active = operations
        .storage
        .prices
        .active()
        .await
        .map_err(Error::internal)?;
    let mut active: HashMap<String, PriceRecord> = active
        .into_iter()
        .map(|record| (record.model.clone(), record))
        .collect();
    let compare = |(model, after): (String, Prices)| MovedPrice {
        version: price_version(&model, &after),
        before: active.remove(&model),
        model,
        after,
    };
    let is_other = |moved: &MovedPrice| {
        let before = moved.before.as_ref();
        before.is_none_or(|before| before.version != moved.version)
    };
    Ok(proposed.map(compare).filter(is_other).collect())
}

/// Compares proposed prices with the current ones. With `force`, applies them, regardless of the
/// size of the changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckPrices {
    /// Proposed prices by model id.
    pub proposed: BTreeMap<String, PriceTable>,
    /// Whether to apply the proposed prices.
    pub force: bool,
}

impl Operation for CheckPrices {
    const NAME: &'static str = "check_prices";
    type Reply = PriceCheckView;

    fn declaration(&self) -> Declaration {
        match self.force {
            true => Declaration::change("prices.force", Permission::Prices),
            false => Declaration::read(),
        }
    }

    async fn execute(self, operations: &Operations, actor: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let mut parsed = Vec::new();
        for (model, named) in self.proposed {
            let prices = named
                .into_iter()
                .try_fold(Prices::default(), |prices, (name, price)| {
                    prices.with_named(&name, price)
                });
            let prices =
                prices.map_err(|error| Error::new(ErrorCode::InvalidParameter, error.to_string()))?;
            parsed.push((model, prices));
        }
        let moved = moved(operations, parsed.into_iter()).await?;
        let changes: Vec<MovedView> = moved.iter().map(MovedPrice::view).collect();
        let clean = changes.iter().all(|change| change.jumps.is_empty());
        if self.force {
            let now = operations.clock.now();
            let records = moved.iter().map(|moved| PriceRecord {
                version: moved.version,
                model: moved.model.clone(),
                prices: moved.after,
                created_at: now,
            });
            store_prices(operations, actor.name(), records.collect(), &moved).await?;
        }
        let view = PriceCheckView {
            clean,
            forced: self.force,
            changes,
        };
        Ok(view.into())
    }
}

/// Stores the prices of a snapshot and makes them current, so that every charge can be traced to
/// its prices. Records the changes of existing prices in the audit log. Fails without any change if
/// a price changes by more than a factor of ten, or to or from zero.
pub async fn activate(operations: &Operations, snapshot: &Snapshot, actor: &Actor) -> Result<(), Error> {
    let models = snapshot.models().iter();
    let proposed = models.map(|model| (model.id.to_string(), model.prices));
    let moved = moved(operations, proposed).await?;
    let far_jumps: Vec<String> = moved.iter().flat_map(describe_jumps).collect();
    if !far_jumps.is_empty() {
        let named = far_jumps
            .iter()
            .take(MAX_NAMED_JUMPS)
            .cloned()
            .collect::<Vec<_>>()
            .join("; ");
        let more = match far_jumps.len().saturating_sub(MAX_NAMED_JUMPS) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let message = format!(
            "prices change by more than a factor of ten, or to or from zero: {named}{more}. If this is intended, run `tollgate prices check --force` with the same settings first"
        );
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("prices"));
    }
    let records = price_records(snapshot, operations.clock.now());
    store_prices(operations, actor.name(), records, &moved).await?;
    for moved in moved.iter().filter(|moved| moved.before.is_some()) {
        let view = moved.view();
        let audit_record = AuditRecord {
            action: "prices.change",
            object: moved.model.clone(),
            before: view.before.map(|prices| json!(prices)),
            after: Some(json!(view.after)),
            ..AuditRecord::default()
        };
        write_audit_record(operations, actor, audit_record, "done").await?;
    }
    Ok(())
}

fn describe_jumps(moved: &MovedPrice) -> Vec<String> {
    let model = &moved.model;
    let jumps = moved.jumps().into_iter();
    jumps
        .map(|jump| format!("{model} {} from {} to {}", jump.class, jump.before, jump.after))
        .collect()
}

async fn store_prices(
    operations: &Operations,
    actor: &str,
    records: Vec<PriceRecord>,
    moved: &[MovedPrice],
) -> Result<(), Error> {
    let now = operations.clock.now();
    let change = |moved: &MovedPrice| PriceChange {
        id: AuditId::from_u128(operations.ids.next(now)),
        model: moved.model.clone(),
        version: moved.version,
        at: now,
        actor: actor.to_owned(),
    };
    let changes = moved.iter().map(change).collect();
    let stored = operations.storage.prices.activate(records, changes).await;
    stored.map_err(Error::internal)
}

/// Returns the price versions of a catalog, including those of test models and of compositions.
/// They must be recorded before any charge.
fn price_records(snapshot: &Snapshot, now: Timestamp) -> Vec<PriceRecord> {
    let record = |model: &Arc<Model>| PriceRecord {
        version: model.price_version,
        model: model.id.to_string(),
        prices: model.prices,
        created_at: now,
    };
    let models = snapshot.models().iter().chain(snapshot.for_tests().models());
    let composition = PriceRecord {
        version: composition_version(),
        model: COMPOSITION.to_owned(),
        prices: Prices::free(),
        created_at: now,
    };
    models.map(record).chain([composition]).collect()
}
