//! A book kept in the plainest way, beside the engine: what it says is what the engine must say.

use std::collections::{BTreeMap, HashSet};

/// A step of a history. Amounts are nano-credits; holds and grants are named by small numbers.
#[derive(Clone, Debug)]
pub enum Step {
    Hold {
        account: u8,
        id: u8,
        amount: i64,
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
    /// Holds of ids below this one expire before those above.
    Sweep {
        before: u8,
    },
    Flush,
    Forget,
    Reopen,
    Crash,
}

/// What the engine must answer.
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

/// One tenant.
#[derive(Clone, Debug, Default)]
pub struct Tenant {
    pub credits: i64,
    pub granted: i64,
    pub overrun: i64,
    /// Amounts of open holds.
    pub open: BTreeMap<u8, i64>,
    /// Charges of resolved holds, and whether a crash or the sweep resolved them.
    pub resolved: BTreeMap<u8, (i64, bool)>,
}

impl Tenant {
    pub fn held(&self) -> i64 {
        self.open.values().sum()
    }

    pub fn charged(&self) -> i64 {
        self.resolved.values().map(|(charge, _)| charge).sum()
    }
}

/// Every tenant; their numbers are their places.
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
            Step::Hold { account, id, amount } => self.hold(account, id, amount),
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

    fn hold(&mut self, account: u8, id: u8, amount: i64) -> Answer {
        let tenant = &mut self.tenants[usize::from(account)];
        if amount < 0 || tenant.open.contains_key(&id) || tenant.resolved.contains_key(&id) {
            return Answer::Conflict;
        }
        if tenant.credits < amount {
            return Answer::Denied(tenant.credits);
        }
        tenant.credits -= amount;
        tenant.open.insert(id, amount);
        Answer::Held(tenant.credits)
    }

    fn settle(&mut self, account: u8, id: u8, charge: i64, overrun: i64) -> Answer {
        let tenant = &mut self.tenants[usize::from(account)];
        if charge < 0 || overrun < 0 {
            return Answer::Conflict;
        }
        let mut first = false;
        if let Some(amount) = tenant.open.remove(&id) {
            let charge = charge.min(amount);
            tenant.credits += amount - charge;
            tenant.overrun += overrun;
            tenant.resolved.insert(id, (charge, false));
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
            for (id, amount) in std::mem::replace(&mut tenant.open, later) {
                tenant.credits += amount;
                tenant.resolved.insert(id, (0, true));
                voided += 1;
            }
        }
        voided
    }
}
