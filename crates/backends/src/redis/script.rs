//! Queries to the store and its replies. A query is a script, so it runs atomically.

use ::redis::{Pipeline, RedisResult, Script, Value, from_redis_value};
use tollgate_types::AccountId;

/// Maximum amount in a window. Numbers in scripts are exact up to eight times this amount.
pub(super) const MAX_AMOUNT: u64 = 1 << 50;

/// The kind of a window of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Work,
    Control,
    Tokens,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Work => "work",
            Kind::Control => "control",
            Kind::Tokens => "tokens",
        }
    }
}

/// Key of a window among all accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct WindowKey {
    pub(super) account: AccountId,
    pub(super) kind: Kind,
}

/// Changes to the seconds of a window: positive amounts are added, negative amounts are subtracted.
/// The numbers of a node's batches increase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) number: u64,
    pub(super) changes: Vec<(u64, i64)>,
}

/// A query about one window.
#[derive(Clone, Debug, Default)]
pub(super) struct WindowQuery {
    pub(super) wanted: u64,
    /// Whether `wanted` is counted if it fits.
    pub(super) counted: bool,
    pub(super) limit: u64,
    /// Maximum amount that may be lent in addition to `wanted`.
    pub(super) extra: u64,
    /// Whether requests are counted by their time rather than by second.
    pub(super) by_time: bool,
    /// Generation of the window that this node expects; `None` for any generation.
    pub(super) generation: Option<String>,
    /// Changes to apply first, oldest first.
    pub(super) batches: Vec<Batch>,
}

/// The reply to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    StoreReply(StoreReply),
    /// The store lost the window that the node expected, and has a new one.
    Lost {
        now: u64,
        generation: String,
    },
    /// The query arrived after its deadline and changed nothing.
    Late {
        now: u64,
    },
}

/// A decision of the store. Times and durations are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoreReply {
    pub(super) now: u64,
    pub(super) generation: String,
    pub(super) allowed: bool,
    /// Counted amount: `wanted`, plus the loan if there is one.
    pub(super) granted: u64,
    /// Second of the store's clock in which `granted` counts.
    pub(super) second: u64,
    /// Amount in the window after the decision.
    pub(super) used: u64,
    pub(super) retry_after: u64,
    pub(super) reset: u64,
}

/// The scripts and the key prefix.
pub(super) struct Scripts {
    window: Script,
    heartbeat: Script,
    prefix: String,
    node: String,
}

/// Time and deadline of a query, in microseconds. If `now` is 0, the script uses the server's
/// clock; if `deadline` is 0, there is no deadline.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueryTime {
    pub(super) now: u64,
    pub(super) deadline: u64,
}

impl Scripts {
    pub(super) fn new(prefix: &str, node: String) -> Self {
        Self {
            window: Script::new(include_str!("window.lua")),
            heartbeat: Script::new(include_str!("beat.lua")),
            prefix: prefix.to_owned(),
            node,
        }
    }

    pub(super) fn all(&self) -> [&Script; 2] {
        [&self.window, &self.heartbeat]
    }

    pub(super) fn node(&self) -> &str {
        &self.node
    }

    pub(super) fn nodes_key(&self) -> String {
        format!("{}:{{nodes}}:alive", self.prefix)
    }

    pub(super) fn epoch_key(&self) -> String {
        format!("{}:{{nodes}}:epoch", self.prefix)
    }

    /// Returns the commands of a query, followed by one that reads the epoch. A changed epoch
    /// reveals a loss of data before the query.
    pub(super) fn ask(
        &self,
        key: WindowKey,
        ask: &WindowQuery,
        query_time: QueryTime,
        new_generation: &str,
    ) -> Pipeline {
        let mut pipeline = Pipeline::new();
        // All keys of an account have its id in braces, so a cluster stores them on one node.
        let base = format!("{}:{{{}}}:{}", self.prefix, key.account, key.kind.as_str());
        pipeline
            .cmd("EVALSHA")
            .arg(self.window.get_hash())
            .arg(3)
            .arg(&base)
            .arg(format!("{base}:times"))
            .arg(format!("{base}:{}", self.node))
            .arg(query_time.now)
            .arg(query_time.deadline)
            .arg(ask.generation.as_deref().unwrap_or_default())
            .arg(new_generation)
            .arg(ask.wanted)
            .arg(u8::from(ask.counted))
            .arg(ask.limit)
            .arg(ask.extra)
            .arg(u8::from(ask.by_time));
        for batch in &ask.batches {
            pipeline.arg(batch.number).arg(batch.changes.len());
            for (second, change) in &batch.changes {
                pipeline.arg(*second).arg(*change);
            }
        }
        pipeline.cmd("GET").arg(self.epoch_key());
        pipeline
    }

    /// Returns the commands of a heartbeat. `ended` is an epoch to replace if the store still has
    /// it; empty if there is none.
    pub(super) fn heartbeat(&self, now: u64, ended: &str, new_epoch: &str, alive_for: u64) -> Pipeline {
        let mut pipeline = Pipeline::new();
        pipeline
            .cmd("EVALSHA")
            .arg(self.heartbeat.get_hash())
            .arg(2)
            .arg(self.nodes_key())
            .arg(self.epoch_key())
            .arg(now)
            .arg(&self.node)
            .arg(ended)
            .arg(new_epoch)
            .arg(alive_for);
        pipeline
    }
}

impl Answer {
    pub(super) fn read(value: Value) -> RedisResult<Self> {
        let mut items: Vec<Value> = from_redis_value(value)?;
        let word: String = from_redis_value(items.first().cloned().unwrap_or(Value::Nil))?;
        let rest = Value::Array(items.split_off(1.min(items.len())));
        match word.as_str() {
            "told" => {
                let (now, generation, allowed, granted, second, used, retry_after, reset) =
                    from_redis_value(rest)?;
                Ok(Answer::StoreReply(StoreReply {
                    now,
                    generation,
                    allowed,
                    granted,
                    second,
                    used,
                    retry_after,
                    reset,
                }))
            }
            "lost" => {
                let (now, generation) = from_redis_value(rest)?;
                Ok(Answer::Lost { now, generation })
            }
            _ => {
                let (now,) = from_redis_value(rest)?;
                Ok(Answer::Late { now })
            }
        }
    }
}
