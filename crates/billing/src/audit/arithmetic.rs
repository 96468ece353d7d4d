//! Second implementation of the charge arithmetic in docs/money.md, with whole nano-credits in
//! `i128`. It shares no code with quote, hold and settle, so that an error there is not repeated
//! here.

use tollgate_types::{Prices, Unit, Usage};

/// Number of units that a price applies to.
const PER: i128 = 1_000_000;

/// Prices of a model by their written names, in nano-credits per million units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceList {
    plain: Vec<(Unit, i128)>,
    long: Vec<(Unit, i128)>,
    /// Prompts with more tokens than this use the `long` prices.
    above: Option<u64>,
}

/// Charge of one unit, such as input tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Unit of the quantity.
    pub class: Unit,
    /// Consumed quantity of the unit.
    pub quantity: u64,
    /// Price in nano-credits per million units.
    pub price: i128,
    /// `quantity` × `price`.
    pub product: i128,
}

/// Cost of a call with its intermediate results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// One line for each consumed unit.
    pub lines: Vec<Line>,
    /// Threshold of a long prompt, in tokens; `None` if the prompt is not longer.
    pub long_above: Option<u64>,
    /// Σ of the products.
    pub sum: i128,
    /// ⌈sum ÷ 1,000,000⌉, in nano-credits.
    pub cost: i128,
}

impl PriceList {
    /// Returns the price list with these prices, which are read by their written names, `class` and
    /// `class>tokens`.
    pub fn of(prices: &Prices) -> PriceList {
        let mut list = PriceList::default();
        for (name, price) in prices.entries() {
            let (class, above) = match name.split_once('>') {
                Some((class, above)) => (class, above.parse::<u64>().ok()),
                None => (name.as_str(), None),
            };
            let Some(unit) = Unit::ALL.into_iter().find(|unit| unit.as_str() == class) else {
                continue;
            };
            let priced = (unit, i128::from(price.nanos()));
            match above {
                Some(_) => {
                    list.above = above;
                    list.long.push(priced);
                }
                None => list.plain.push(priced),
            }
        }
        list
    }

    /// Returns the cost of a usage at list price.
    pub fn cost(&self, usage: &Usage) -> Cost {
        let prompt: u128 = Unit::ALL
            .into_iter()
            .filter(|unit| base_of(*unit) == Some(Unit::Input))
            .map(|unit| u128::from(usage.get(unit)))
            .sum();
        let long_above = self.above.filter(|above| prompt > u128::from(*above));
        let consumed = Unit::ALL.into_iter().filter(|unit| usage.get(*unit) > 0);
        let line = |class: Unit| {
            let quantity = usage.get(class);
            let price = self.price(class, long_above.is_some());
            Line {
                class,
                quantity,
                price,
                product: i128::from(quantity).saturating_mul(price),
            }
        };
        let lines: Vec<Line> = consumed.map(line).collect();
        let sum = lines
            .iter()
            .fold(0_i128, |sum, line| sum.saturating_add(line.product));
        let whole = sum.div_euclid(PER);
        let cost = if sum.rem_euclid(PER) > 0 { whole + 1 } else { whole };
        Cost {
            lines,
            long_above,
            sum,
            // A stored amount is at most `i64::MAX`.
            cost: cost.clamp(0, i128::from(i64::MAX)),
        }
    }

    /// Returns the cost of a usage as a batch line, 65 % of the list price: ⌈sum × 65 ÷
    /// 100,000,000⌉.
    pub fn batch_cost(&self, usage: &Usage) -> i128 {
        let sum = self.cost(usage).sum.saturating_mul(65);
        let per = PER * 100;
        let whole = sum.div_euclid(per);
        let cost = if sum.rem_euclid(per) > 0 { whole + 1 } else { whole };
        cost.clamp(0, i128::from(i64::MAX))
    }

    /// Returns the listed price of a unit, or the price derived from its base unit.
    fn price(&self, class: Unit, is_long: bool) -> i128 {
        let Some(base) = base_of(class) else {
            return listed(&self.plain, class).unwrap_or(0);
        };
        let has_long = is_long && listed(&self.long, class).is_some();
        if class == Unit::CacheReadAudio && listed(&self.plain, class).is_none() && !has_long {
            return self.price(Unit::CacheRead, is_long);
        }
        let plain_base = listed(&self.plain, base).unwrap_or(0);
        let plain = listed(&self.plain, class).unwrap_or_else(|| follows(class, plain_base));
        if !is_long {
            return plain;
        }
        match (listed(&self.long, class), listed(&self.long, base)) {
            (Some(own), _) => own,
            (None, None) => plain,
            (None, Some(long_base)) if plain_base == 0 => follows(class, long_base),
            (None, Some(long_base)) => {
                // The long-prompt price rises in proportion to that of the base unit, rounded up.
                let product = plain.saturating_mul(long_base);
                let whole = product.div_euclid(plain_base);
                let rest = product.rem_euclid(plain_base);
                (whole + i128::from(rest > 0)).min(i128::from(i64::MAX))
            }
        }
    }
}

fn listed(prices: &[(Unit, i128)], class: Unit) -> Option<i128> {
    prices
        .iter()
        .find(|(unit, _)| *unit == class)
        .map(|(_, price)| *price)
}

/// Returns the unit whose price applies to a unit without a price; `None` for units that are not
/// tokens.
fn base_of(class: Unit) -> Option<Unit> {
    match class {
        Unit::Input
        | Unit::CacheRead
        | Unit::CacheWrite
        | Unit::InputAudio
        | Unit::CacheWriteHour
        | Unit::InputImage
        | Unit::CacheReadAudio => Some(Unit::Input),
        Unit::Output | Unit::Reasoning | Unit::OutputAudio => Some(Unit::Output),
        Unit::Image | Unit::Video | Unit::Audio | Unit::Character | Unit::Search => None,
    }
}

/// Returns the price of a unit without a price, from the price of its base unit.
fn follows(class: Unit, base: i128) -> i128 {
    match class {
        Unit::CacheWriteHour => (base * 2).min(i128::from(i64::MAX)),
        _ => base,
    }
}

/// Split of a charge between credits and allowance, in nano-credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Charge to the caller: the cost, at most the hold.
    pub charge: i128,
    /// Cost above the hold.
    pub overrun: i128,
    /// Part of the charge that the allowance pays. The allowance is used before credits.
    pub included: i128,
    /// Part of the charge that credits pay.
    pub paid: i128,
    /// Part of the hold released to credits.
    pub released: i128,
    /// Unused part of the held allowance.
    pub unused: i128,
}

impl Split {
    /// Splits a cost between the credits and the allowance of a hold.
    pub fn of(cost: i128, credits: i128, allowance: i128) -> Split {
        Self::charging(cost.min(credits + allowance), cost, credits, allowance)
    }

    /// Splits a cost with a given charge, such as that of a batch.
    pub fn charging(charge: i128, cost: i128, credits: i128, allowance: i128) -> Split {
        let included = charge.min(allowance);
        let paid = charge - included;
        Split {
            charge,
            overrun: cost - charge,
            included,
            paid,
            released: credits - paid,
            unused: allowance - included,
        }
    }
}
