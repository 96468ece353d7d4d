//! Quotes with their items, for the callers of one or of several models.

use std::sync::Arc;

use tollgate_catalog::Model;
use tollgate_storage::Spendable;
use tollgate_types::{Credits, PriceVersion, Unit};

use crate::hold::Preview;
use crate::quote::Item;

/// Quote of a request, its items, and the funds of its account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemizedQuote {
    /// Model name as sent in the request.
    pub public_model: Arc<str>,
    /// Version of the prices; a constant for compositions, whose models have several.
    pub price_version: PriceVersion,
    /// Amount that the hold would have now.
    pub amount: Credits,
    /// Number of charged answers.
    pub answers: u64,
    /// Components of the amount.
    pub items: Vec<StepItem>,
    /// Funds that the account can spend on the request.
    pub spendable: Spendable,
    /// Whether these funds cover the amount.
    pub is_covered: bool,
}

/// Item of a quote, with its step if the request has several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepItem {
    /// The step that the item belongs to; `None` for requests of one call.
    pub step: Option<Step>,
    /// Unit, maximum quantity and price.
    pub item: Item,
}

/// One of several calls that a request pays for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Name of the step, such as `script`.
    pub name: String,
    /// Public name of its model.
    pub model: String,
}

impl ItemizedQuote {
    /// Returns the quote of a call of one model.
    pub fn of(public_model: &Arc<str>, model: &Model, preview: &Preview) -> Self {
        let items = preview.quote.items(model, &preview.demand).into_iter();
        Self {
            public_model: public_model.clone(),
            price_version: model.price_version,
            amount: preview.quote.amount,
            answers: preview.demand.n.max(1),
            items: items.map(|item| StepItem { step: None, item }).collect(),
            spendable: preview.spendable,
            is_covered: preview.is_covered,
        }
    }

    /// Removes the items that cost nothing.
    #[must_use]
    pub fn without_free_items(mut self) -> Self {
        self.items.retain(|one| !one.item.cost().is_zero());
        self
    }

    /// Returns the part of the amount that the allowance of the account's plan would cover.
    pub fn included(&self) -> Credits {
        self.spendable.allowance.min(self.amount)
    }

    /// Returns the maximum quantity of a unit in all items.
    pub fn quantity(&self, unit: Unit) -> u64 {
        let items = self.items.iter().map(|one| &one.item);
        let quantities = items.filter(|item| item.unit == unit).map(|item| item.quantity);
        quantities.fold(0, u64::saturating_add)
    }
}
