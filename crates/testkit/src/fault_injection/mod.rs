//! Fault injection: three nodes on one PostgreSQL and one Redis run under load, while processes are
//! killed and frozen and connections are cut. Then all faults end, and the ledger is compared with
//! the upstream's record and with the responses of the callers.
//!
//! The seed determines the faults and their times ([`schedule`]), but not the timing of processes
//! and network. If the process may create network namespaces, every node runs on a separate host;
//! otherwise, a proxy that delays all data replaces a cut wire. The clocks of nodes are changed if
//! libfaketime is installed.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "an error must fail the run, and the output is the log of the run"
)]

mod comparison;
mod dice;
mod load;
mod schedule;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

pub use comparison::Summary;

use crate::clock::FakeClock;
use crate::gateway::http::Client;
use crate::gateway::{Database, Gateway, Options, Storage};
use crate::network::Host;
use crate::postgres::PostgresServer;
use crate::proxy::{Proxy, Weather};
use crate::redis::RedisServer;
use crate::upstream::FakeUpstream;

use load::{Load, ResponseLog};
use schedule::{Event, Fault, Server};

const NODES: usize = 3;
const CALLERS: u64 = 12;
const MODEL: &str = "acme/plain";
/// Price of a token, in nano-credits.
const PRICE: i64 = 1_000;
const CAP: i64 = 64;
/// Maximum duration of the recovery after the last fault. A sweep every half minute releases the
/// expired holds.
const HEALING: Duration = Duration::from_secs(120);

/// Pause before another attempt to start a node.
const AGAIN: Duration = Duration::from_millis(500);

/// Parameters of a run.
#[derive(Debug, Clone)]
pub struct FaultInjection {
    /// Path of the built gateway.
    pub binary: PathBuf,
    /// Seed that determines the faults and their times.
    pub seed: u64,
    /// Duration of the load and the faults.
    pub length: Duration,
}

/// An account under load.
#[derive(Debug)]
struct Account {
    id: String,
    key: String,
    granted: i64,
    /// Allowance of the account's plan, in nano-credits.
    allowance: i64,
}

/// The environment of one node: its host, its clock, and the proxies to its servers.
struct Surroundings {
    roads: [Proxy; 3],
    host: Option<Host>,
    clock: Option<FakeClock>,
}

/// Index of the callers' wire. Wires with lower indexes lead to the servers, in the order of
/// [`Server`].
const CALLERS_WIRE: usize = 3;

impl Surroundings {
    async fn of_node(node: usize, servers: [SocketAddr; 3]) -> Self {
        let host = Host::make(node)
            .inspect_err(|why| println!("no hosts: {why}"))
            .ok();
        let clock = FakeClock::make();
        if clock.is_none() {
            println!("clocks stay right: libfaketime is not installed");
        }
        let [postgres, redis, upstream] = Server::ALL.map(|position| {
            let here = host
                .as_ref()
                .map_or(Ipv4Addr::LOCALHOST, |host| host.near(position as usize));
            Proxy::from(here, servers[position as usize])
        });
        let roads = [postgres.await, redis.await, upstream.await];
        Self { roads, host, clock }
    }

    fn to(&self, position: Server) -> &Proxy {
        &self.roads[position as usize]
    }

    /// Cuts the wire to a server, or restores it.
    fn set_wire(&self, position: Server, is_whole: bool) {
        match (&self.host, is_whole) {
            (Some(host), true) => host.mend(position as usize),
            (Some(host), false) => host.cut(position as usize),
            (None, true) => self.to(position).set(Weather::Clear),
            (None, false) => self.to(position).set(Weather::Still),
        }
    }

    fn set_clock(&self, ahead: i64) {
        if let Some(clock) = &self.clock {
            clock.set(ahead);
        }
    }

    fn options(&self, database: &str) -> Options {
        let mut env = self.clock.as_ref().map(FakeClock::env).unwrap_or_default();
        env.push(("PROVIDER_KEY".to_owned(), "sk-northwind".to_owned()));
        Options {
            config: self.settings(database),
            storage: Storage::Postgres,
            env,
            runner: self.host.as_ref().map(Host::runner).unwrap_or_default(),
        }
    }

    fn settings(&self, database: &str) -> String {
        let [postgres, redis, upstream] = Server::ALL.map(|position| self.to(position).address());
        let listen = self
            .host
            .as_ref()
            .map_or(Ipv4Addr::LOCALHOST, |host| host.far(CALLERS_WIRE));
        format!(
            r#"
[server]
listen = "{listen}:0"
allow_plain_http = true

[storage]
url = "postgres://postgres@{postgres}/{database}"

[redis]
url = "redis://{redis}"

[timeouts]
total_ms = 3000
connect_ms = 1000

[drain]
time_ms = 500

[retries]
extra_attempts = 0

[providers.northwind]
preset = "openai-compatible"
base_url = "http://{upstream}/v1"
api_key_env = "PROVIDER_KEY"

[models."{MODEL}"]
targets = ["northwind/plain-v1"]
prices = {{ input = "1", output = "1" }}
limits = {{ context_window = 200000, max_output_tokens = 4096 }}

[plans.week]
price = "0"
allowance = "0.05"
models = ["*/plain"]
"#
        )
    }
}

/// All processes. Gateways come first, so that they are dropped first.
struct World {
    /// The nodes; `None` while a killed node does not serve yet.
    gateways: [Option<Gateway>; NODES],
    /// Nodes that are being started.
    starting: JoinSet<(usize, Gateway)>,
    around: Vec<Surroundings>,
    upstream: FakeUpstream,
    redis: RedisServer,
    load: Arc<Load>,
    postgres: PostgresServer,
}

impl World {
    async fn start(binary: &Path) -> Self {
        let postgres = PostgresServer::start().await;
        let redis = RedisServer::start().await;
        let upstream = FakeUpstream::start().await;
        let database = Arc::new(Database::create_on(postgres.url()).await);
        let servers = [postgres.address(), redis.address(), upstream.address()];
        let (mut gateways, mut around) = (Vec::new(), Vec::new());
        for node in 0..NODES {
            let of_node = Surroundings::of_node(node, servers).await;
            let options = of_node.options(database.name());
            gateways.push(Gateway::start_on_database(binary, options, database.clone()).await);
            around.push(of_node);
        }
        let accounts = accounts(&gateways[0]).await;
        let nodes = gateways.iter().map(Gateway::address).collect();
        let gateways: Vec<_> = gateways.into_iter().map(Some).collect();
        let load = Load {
            accounts,
            nodes: Mutex::new(nodes),
            stop: AtomicBool::new(false),
            number: AtomicU64::new(0),
        };
        Self {
            gateways: gateways.try_into().unwrap_or_else(|_| panic!("all started")),
            starting: JoinSet::new(),
            around,
            upstream,
            redis,
            load: Arc::new(load),
            postgres,
        }
    }

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::PostgresRestart => self.postgres.restart().await,
            Fault::PostgresKill => self.postgres.kill(),
            Fault::RedisKill => self.redis.kill().await,
            Fault::RedisFlush => {
                self.redis.execute(&["FLUSHALL"]).await;
            }
            Fault::RedisFreeze => self.redis.signal("STOP").await,
            // The node may still be down from an earlier fault, if a server that it needs is
            // unavailable.
            Fault::NodeKill(node) => {
                if let Some(gateway) = self.running(node) {
                    gateway.kill().await;
                }
            }
            Fault::NodeFreeze(node) => {
                if let Some(gateway) = self.running(node) {
                    gateway.signal("STOP").await;
                }
            }
            Fault::Road(node, position, weather) => self.around[node].to(position).set(weather),
            Fault::Wire(node, position) => self.around[node].set_wire(position, false),
            Fault::Clock(node, ahead) => self.around[node].set_clock(ahead),
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::PostgresRestart | Fault::RedisFlush => {}
            Fault::PostgresKill => self.postgres.start_again().await,
            Fault::RedisKill => self.redis.restart().await,
            Fault::RedisFreeze => self.redis.signal("CONT").await,
            Fault::NodeKill(node) => {
                if let Some(gateway) = self.gateways[node].take_if(|gateway| !gateway.runs()) {
                    self.starting.spawn(start_again(node, gateway));
                }
            }
            Fault::NodeFreeze(node) => {
                if let Some(gateway) = &self.gateways[node] {
                    gateway.signal("CONT").await;
                }
            }
            Fault::Road(node, position, _) => self.around[node].to(position).set(Weather::Clear),
            Fault::Wire(node, position) => self.around[node].set_wire(position, true),
            Fault::Clock(node, _) => self.around[node].set_clock(0),
        }
    }

    /// Collects the nodes that serve again.
    fn take_started(&mut self) {
        while let Some(started) = self.starting.try_join_next() {
            let (node, gateway) = started.unwrap();
            self.load.nodes.lock().unwrap()[node] = gateway.address();
            self.gateways[node] = Some(gateway);
        }
    }

    /// Returns a node, or `None` while it does not serve. Panics if the node ended without a fault.
    fn running(&mut self, node: usize) -> Option<&mut Gateway> {
        let gateway = self.gateways[node].as_mut()?;
        assert!(gateway.runs(), "node {node} ended by itself: {}", gateway.log());
        Some(gateway)
    }

    /// Waits until every node serves and no hold is open.
    async fn heal(&mut self) {
        let deadline = Instant::now() + HEALING;
        let key = self.load.accounts[0].key.clone();
        for node in 0..NODES {
            loop {
                self.take_started();
                if let Some(gateway) = self.running(node)
                    && serves(&gateway.client(), &key).await
                {
                    break;
                }
                assert!(Instant::now() < deadline, "node {node} does not serve");
                sleep(Duration::from_millis(100)).await;
            }
        }
        for account in &self.load.accounts {
            while self.first().balance(&account.id).await.held > 0 {
                assert!(Instant::now() < deadline, "{} has open holds", account.id);
                sleep(Duration::from_millis(500)).await;
            }
        }
    }

    /// Returns the first node, which must serve.
    fn first(&self) -> &Gateway {
        self.gateways[0].as_ref().unwrap()
    }
}

/// Starts a node repeatedly until it serves. A node exits while a server that it needs is
/// unavailable.
async fn start_again(node: usize, mut gateway: Gateway) -> (usize, Gateway) {
    let deadline = Instant::now() + HEALING;
    while !gateway.try_restart().await {
        assert!(
            Instant::now() < deadline,
            "node {node} does not start: {}",
            gateway.log()
        );
        sleep(AGAIN).await;
    }
    (node, gateway)
}

async fn serves(client: &Client, key: &str) -> bool {
    let body = load::body(0, 1);
    let call = client.try_post_json("/v1/chat/completions", key, &body);
    let response = tokio::time::timeout(Duration::from_secs(10), call).await;
    response.is_ok_and(|response| response.is_some_and(|response| response.whole && response.status == 200))
}

/// Creates two accounts with ample credits, one that runs out of credits, one with nearly none, one
/// with a plan, and one with ample credits and a low request limit.
async fn accounts(gateway: &Gateway) -> Vec<Account> {
    let mut accounts = Vec::new();
    for (granted, allowance) in [
        (1_000_000_000, 0),
        (1_000_000_000, 0),
        (20_000_000, 0),
        (400_000, 0),
        (0, 50_000_000),
        (1_000_000_000, 0),
    ] {
        let id = gateway.account().await;
        if granted > 0 {
            let credits = format!("{}.{:09}", granted / 1_000_000_000, granted % 1_000_000_000);
            gateway.grant(&id, &credits).await;
        }
        if allowance > 0 {
            let create = ["subscriptions", "create", "--account", &id, "--plan", "week"];
            gateway.command_line().run(&create).await;
        }
        let key = gateway.key(&id).await.secret;
        accounts.push(Account {
            id,
            key,
            granted,
            allowance,
        });
    }
    let rarely = &accounts[accounts.len() - 1].id;
    gateway.set_limits(rarely, 60, 1_000_000).await;
    accounts
}

/// Returns the start (true) and the end (false) of every fault, by time.
fn moments(events: &[Event]) -> Vec<(Duration, Fault, bool)> {
    let both = |event: &Event| [(event.at, event.fault, true), (event.until, event.fault, false)];
    let mut moments: Vec<_> = events.iter().flat_map(both).collect();
    moments.sort_by_key(|(at, _, _)| *at);
    moments
}

/// Executes a run.
///
/// # Panics
/// If a check fails. The seed and the schedule are printed before.
pub async fn run(options: FaultInjection) -> Summary {
    let events = schedule::schedule(options.seed, options.length);
    println!(
        "seed {}, {:?}, {} faults",
        options.seed,
        options.length,
        events.len()
    );
    // The nodes run in other folders, so the path must be absolute.
    let binary = options.binary.canonicalize().unwrap();
    let mut world = World::start(&binary).await;
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        callers.spawn(load::call_on(
            world.load.clone(),
            options.seed.wrapping_add(caller + 1),
        ));
    }
    let start = Instant::now();
    for (at, fault, begins) in moments(&events) {
        sleep_until(start + at).await;
        world.take_started();
        let now = start.elapsed().as_secs_f64();
        if begins {
            println!("{now:>8.3} begin {fault:?}");
            world.begin(fault).await;
        } else {
            println!("{now:>8.3} end   {fault:?}");
            world.end(fault).await;
        }
    }
    sleep_until(start + options.length).await;
    world.load.stop.store(true, Ordering::Relaxed);
    let mut responses = ResponseLog::default();
    for more in callers.join_all().await {
        responses.add(more);
    }
    world.heal().await;
    let accounts = &world.load.accounts;
    let summary = comparison::compare(world.first(), &world.upstream, accounts, &responses).await;
    println!("{summary:#?}");
    assert!(!responses.whole.is_empty(), "some calls were answered");
    for gateway in world.gateways.iter_mut().flatten() {
        gateway.stop().await;
        let log = gateway.log();
        assert!(!log.contains("panicked"), "{log}");
    }
    comparison::check(&world.first().ledger_check().await, &summary);
    summary
}
