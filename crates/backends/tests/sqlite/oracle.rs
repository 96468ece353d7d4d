//! A simple model of the ledger, with which the engine's answers are compared.

use std::collections::{BTreeMap, HashSet};

/// A step. Amounts are in nano-credits; small numbers identify holds and grants.
#[derive(Clone, Debug)]
pub enum Step {
    Hold {
        account: u8,
        id: u8,
        amount: i64,
        /// Week in which the call is accepted.
        week: u8,
    },
    /// Starts a plan with the weekly allowance [`WEEKLY`].
    Subscribe {
        account: u8,
    },
    /// Makes the plan past due, renews it, or expires it.
    Change {
        account: u8,
        to: Plan,
    },
    Settle {
        account: u8,
        id: u8,
        charge: i64,
        overrun: i64,
    },
    Grant {
        account: u8,
        id: u8,
        amount: i64,
    },
    /// Voids the open holds with ids below `before`.
    Sweep {
        before: u8,
    },
    Flush,
    Forget,
    Reopen,
    Crash,
}

/// Weekly allowance of a plan, in nano-credits.
pub const WEEKLY: i64 = 40;

/// State of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    Active,
    PastDue,
    Expired,
}

/// An open hold.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    pub amount: i64,
    /// Part that the allowance pays.
    share: i64,
    /// Plan and week of the share; `None` without a plan.
    week: Option<(u32, u8)>,
}

/// Expected answer of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Held(i64),
    Denied(i64),
    Resolved {
        charge: i64,
        first: bool,
        available: i64,
    },
    Granted {
        credits: i64,
        held: i64,
    },
    Swept(u64),
    Conflict,
    NotFound,
    Nothing,
}

/// Expected balances and holds of one tenant.
#[derive(Clone, Debug, Default)]
pub struct Tenant {
    pub credits: i64,
    pub granted: i64,
    pub overrun: i64,
    pub open: BTreeMap<u8, Open>,
    /// For each resolved hold: its charge, and whether a crash or the sweep resolved it.
    pub resolved: BTreeMap<u8, (i64, bool)>,
    pub allowance: i64,
    pub breakage: i64,
    pub included: i64,
    plan: Option<Plan>,
    /// Number of plans so far. `week` is the open week of the last plan.
    plans: u32,
    week: u8,
}

impl Tenant {
    pub fn held(&self) -> i64 {
        self.open.values().map(|open| open.amount).sum()
    }

    /// Returns the allowance that a call in this week may use.
    fn left(&self, week: u8) -> Option<i64> {
        match self.plan {
            Some(Plan::Active) if week > self.week => Some(WEEKLY),
            Some(Plan::Active) => Some(self.allowance),
            _ => None,
        }
    }

    fn resolve(&mut self, id: u8, open: Open, charge: i64, crashed: bool) {
        let included = charge.min(open.share);
        self.included += included;
        self.credits += (open.amount - open.share) - (charge - included);
        let lasts = matches!(self.plan, Some(Plan::Active | Plan::PastDue))
            && open.week == Some((self.plans, self.week));
        *(if lasts {
            &mut self.allowance
        } else {
            &mut self.breakage
        }) += open.share - included;
        self.resolved.insert(id, (charge, crashed));
    }

    pub fn charged(&self) -> i64 {
        self.resolved.values().map(|(charge, _)| charge).sum()
    }
}

/// Model of the ledger: all tenants, indexed by their number.
#[derive(Clone, Debug)]
pub struct Oracle {
    pub tenants: Vec<Tenant>,
    grants: HashSet<(u8, u8)>,
}

impl Oracle {
    pub fn new(tenants: usize) -> Oracle {
        Oracle {
            tenants: vec![Tenant::default(); tenants],
            grants: HashSet::new(),
        }
    }

    pub fn step(&mut self, step: &Step) -> Answer {
        match *step {
            Step::Hold {
                account,
                id,
                amount,
                week,
            } => self.hold(account, id, amount, week),
            Step::Subscribe { account } => self.subscribe(account),
            Step::Change { account, to } => self.change(account, to),
            Step::Settle {
                account,
                id,
                charge,
                overrun,
            } => self.settle(account, id, charge, overrun),
            Step::Grant { account, id, amount } => self.grant(account, id, amount),
            Step::Sweep { before } => Answer::Swept(self.void(before)),
            Step::Crash => {
                self.void(u8::MAX);
                Answer::Nothing
            }
            Step::Flush | Step::Forget | Step::Reopen => Answer::Nothing,
        }
    }

    fn subscribe(&mut self, account: u8) -> Answer {
        let tenant = &mut self.tenants[usize::from(account)];
        if matches!(tenant.plan, Some(Plan::Active | Plan::PastDue)) {
            return Answer::Conflict;
        }
        tenant.plan = Some(Plan::Active);
        tenant.plans += 1;
        (tenant.week, tenant.allowance) = (0, WEEKLY);
        Answer::Nothing
    }

    fn change(&mut self, account: u8, to: Plan) -> Answer {
        let tenant = &mut self.tenants[usize::from(account)];
        let allowed = match to {
            Plan::PastDue => tenant.plan == Some(Plan::Active),
            Plan::Active | Plan::Expired => tenant.plan == Some(Plan::PastDue),
        };
        if !allowed {
            return Answer::Conflict;
        }
        tenant.plan = Some(to);
        if to == Plan::Expired {
            tenant.breakage += std::mem::take(&mut tenant.allowance);
        }
        Answer::Nothing
    }

    fn hold(&mut self, account: u8, id: u8, amount: i64, week: u8) -> Answer {
        let tenant = &mut self.tenants[usize::from(account)];
        if amount < 0 || tenant.open.contains_key(&id) || tenant.resolved.contains_key(&id) {
            return Answer::Conflict;
        }
        let covered = tenant.left(week).filter(|_| amount > 0);
        let left = covered.unwrap_or(0);
        if tenant.credits + left < amount {
            return Answer::Denied(tenant.credits + left);
        }
        if covered.is_some() && week > tenant.week {
            tenant.breakage += std::mem::replace(&mut tenant.allowance, WEEKLY);
            tenant.week = week;
        }
        let share = left.min(amount);
        tenant.credits -= amount - share;
        tenant.allowance -= share;
        let week = covered.map(|_| (tenant.plans, tenant.week));
        tenant.open.insert(id, Open { amount, share, week });
        Answer::Held(tenant.credits)
    }

    fn settle(&mut self, account: u8, id: u8, charge: i64, overrun: i64) -> Answer {
        let tenant = &mut self.tenants[usize::from(account)];
        if charge < 0 || overrun < 0 {
            return Answer::Conflict;
        }
        let mut first = false;
        if let Some(open) = tenant.open.remove(&id) {
            tenant.resolve(id, open, charge.min(open.amount), false);
            tenant.overrun += overrun;
            first = true;
        }
        match tenant.resolved.get(&id) {
            Some((charge, _)) => Answer::Resolved {
                charge: *charge,
                first,
                available: tenant.credits,
            },
            None => Answer::NotFound,
        }
    }

    fn grant(&mut self, account: u8, id: u8, amount: i64) -> Answer {
        let owner = (0..self.tenants.len()).find(|owner| self.grants.contains(&(*owner as u8, id)));
        let tenant = &mut self.tenants[usize::from(account)];
        if amount <= 0 || owner.is_some_and(|owner| owner != usize::from(account)) {
            return Answer::Conflict;
        }
        if owner.is_none() {
            self.grants.insert((account, id));
            tenant.credits += amount;
            tenant.granted += amount;
        }
        Answer::Granted {
            credits: tenant.credits,
            held: tenant.held(),
        }
    }

    fn void(&mut self, before: u8) -> u64 {
        let mut voided = 0;
        for tenant in &mut self.tenants {
            let later = tenant.open.split_off(&before);
            for (id, open) in std::mem::replace(&mut tenant.open, later) {
                tenant.resolve(id, open, 0, true);
                voided += 1;
            }
        }
        voided
    }
}
