//! What is asked of the store, and what it answers. The questions are scripts, so that each is one step there.

use ::redis::{Pipeline, RedisResult, Script, Value, from_redis_value};
use tollgate_types::AccountId;

/// Most of anything in a window. Numbers of scripts are exact up to eight times as much.
pub(super) const MOST: u64 = 1 << 50;

/// Which window of an account.
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

/// A window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) account: AccountId,
    pub(super) kind: Kind,
}

/// Something to add to seconds of a window (above 0) or to take back (below), under a number that rises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) number: u64,
    pub(super) changes: Vec<(u64, i64)>,
}

/// A question about one window.
#[derive(Clone, Debug, Default)]
pub(super) struct Ask {
    pub(super) wanted: u64,
    /// Whether what is wanted is counted, when it fits.
    pub(super) counted: bool,
    pub(super) limit: u64,
    /// How much may be lent beyond what is wanted.
    pub(super) extra: u64,
    /// Whether it is counted by its time, and not by its second.
    pub(super) by_time: bool,
    /// The life of the window that the node knows.
    pub(super) life: Option<String>,
    /// What is to be taken in first, oldest first.
    pub(super) batches: Vec<Batch>,
}

/// What the store says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Told(Told),
    /// The window that the node knows is gone; there is another one.
    Lost {
        now: u64,
        life: String,
    },
    /// The question came after its deadline, and nothing was done.
    Late {
        now: u64,
    },
}

/// A decision. Durations are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) now: u64,
    pub(super) life: String,
    pub(super) allowed: bool,
    /// What was counted: at least what was wanted, more when something is lent.
    pub(super) granted: u64,
    /// The second in which it counts.
    pub(super) second: u64,
    /// What the window holds after it.
    pub(super) used: u64,
    pub(super) retry_after: u64,
    pub(super) reset: u64,
}

/// The scripts, and the names under which things are kept.
pub(super) struct Scripts {
    window: Script,
    beat: Script,
    prefix: String,
    node: String,
}

/// When a question is asked: the time, if it is not the store's own, and when it is too late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct When {
    pub(super) now: u64,
    pub(super) deadline: u64,
}

impl Scripts {
    pub(super) fn new(prefix: &str, node: String) -> Self {
        Self {
            window: Script::new(include_str!("window.lua")),
            beat: Script::new(include_str!("beat.lua")),
            prefix: prefix.to_owned(),
            node,
        }
    }

    pub(super) fn all(&self) -> [&Script; 2] {
        [&self.window, &self.beat]
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

    /// The question, and then the epoch: what was lost before the question is noticed by it.
    pub(super) fn ask(&self, place: Place, ask: &Ask, when: When, new_life: &str) -> Pipeline {
        let mut pipeline = Pipeline::new();
        // Everything of an account has its id in braces: a cluster keeps it on one node.
        let base = format!("{}:{{{}}}:{}", self.prefix, place.account, place.kind.as_str());
        pipeline
            .cmd("EVALSHA")
            .arg(self.window.get_hash())
            .arg(3)
            .arg(&base)
            .arg(format!("{base}:times"))
            .arg(format!("{base}:{}", self.node))
            .arg(when.now)
            .arg(when.deadline)
            .arg(ask.life.as_deref().unwrap_or_default())
            .arg(new_life)
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

    /// A sign of life. `ended` is an epoch that is over although the store has it still.
    pub(super) fn beat(&self, now: u64, ended: &str, new_epoch: &str, alive_for: u64) -> Pipeline {
        let mut pipeline = Pipeline::new();
        pipeline
            .cmd("EVALSHA")
            .arg(self.beat.get_hash())
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
                let (now, life, allowed, granted, second, used, retry_after, reset) = from_redis_value(rest)?;
                Ok(Answer::Told(Told {
                    now,
                    life,
                    allowed,
                    granted,
                    second,
                    used,
                    retry_after,
                    reset,
                }))
            }
            "lost" => {
                let (now, life) = from_redis_value(rest)?;
                Ok(Answer::Lost { now, life })
            }
            _ => {
                let (now,) = from_redis_value(rest)?;
                Ok(Answer::Late { now })
            }
        }
    }
}
