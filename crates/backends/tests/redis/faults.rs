//! Limits while the server is unavailable, slow, or has lost its data. Each test has a separate
//! server.

use std::time::Duration;

use tollgate_backends::redis::{RedisConfig, RedisCounters, check_url, probe};
use tollgate_storage::Counters;
use tollgate_testkit::gateway::eventually;
use tollgate_testkit::redis::{RedisServer, SlowRoad};

use crate::fleet::{LONG, account, admit, admit_many, block_on, left, node};

/// Limit of most tests. While the server is unavailable, each of two nodes has a share of five.
const LIMIT: u32 = 10;

/// Returns settings with a long decision timeout, for busy machines. Nodes detect a stopped server
/// by its closed connection.
fn config(url: String, node: u64) -> RedisConfig {
    RedisConfig {
        decision_timeout: Duration::from_secs(2),
        ..RedisConfig::new(url, node)
    }
}

/// Opens two nodes that share this server.
async fn two_nodes(url: &str) -> [RedisCounters; 2] {
    two_with(|node| config(url.to_owned(), node)).await
}

async fn two_with(config: impl Fn(u64) -> RedisConfig) -> [RedisCounters; 2] {
    let nodes = [1, 2].map(|number| node(config(number)));
    for node in &nodes {
        assert!(node.wait_until_shared(LONG).await);
    }
    // Both nodes must be registered before the test starts.
    eventually("both know of both", async || {
        nodes.iter().all(|node| node.nodes() == 2)
    })
    .await;
    nodes
}

async fn until_shared(nodes: &[RedisCounters; 2]) {
    eventually("both share again", async || {
        nodes.iter().all(RedisCounters::is_shared)
    })
    .await;
}

async fn until_alone(nodes: &[RedisCounters; 2]) {
    eventually("both are alone", async || {
        !nodes.iter().any(RedisCounters::is_shared)
    })
    .await;
}

#[test]
fn nodes_use_their_share_while_the_server_is_down() {
    block_on(async {
        let mut server = RedisServer::start().await;
        let nodes = two_nodes(&server.url()).await;
        assert_eq!(admit_many(&nodes[0], LIMIT, 4).await, 4);
        server.kill().await;
        until_alone(&nodes).await;
        // The earlier counts of the node still apply.
        assert_eq!(admit_many(&nodes[0], LIMIT, 9).await, 1);
        assert_eq!(admit_many(&nodes[1], LIMIT, 9).await, 5);
        let refused = admit(&nodes[1], LIMIT).await;
        assert_eq!((refused.limit, refused.remaining), (u64::from(LIMIT), 0));
        assert!(!refused.retry_after.is_zero());
        server.restart().await;
        until_shared(&nodes).await;
        assert_eq!(left(&nodes[0], LIMIT, 1).await.0, 0);
        assert_eq!(left(&nodes[1], 2 * LIMIT, 1).await.0, u64::from(LIMIT));
        for node in &nodes {
            assert_eq!(admit_many(node, LIMIT, 2).await, 0);
        }
    });
}

#[test]
fn frozen_servers_are_dropped_and_reconnected() {
    block_on(async {
        let server = RedisServer::start().await;
        let nodes = two_with(|node| RedisConfig {
            decision_timeout: Duration::from_millis(200),
            ..config(server.url(), node)
        })
        .await;
        assert_eq!(admit_many(&nodes[0], LIMIT, 4).await, 4);
        server.signal("STOP").await;
        // Requests are decided before and after the node detects the failure.
        assert_eq!(admit_many(&nodes[1], LIMIT, 9).await, 5);
        until_alone(&nodes).await;
        assert_eq!(admit_many(&nodes[0], LIMIT, 9).await, 1);
        server.signal("CONT").await;
        until_shared(&nodes).await;
        for node in &nodes {
            assert_eq!(admit_many(node, LIMIT, 2).await, 0);
        }
    });
}

#[test]
fn counts_are_resent_after_a_flush() {
    block_on(async {
        let server = RedisServer::start().await;
        let nodes = two_nodes(&server.url()).await;
        assert_eq!(admit_many(&nodes[0], LIMIT, 6).await, 6);
        server.execute(&["FLUSHALL"]).await;
        // The first request detects the loss. Its node has no earlier counts, so it admits requests
        // up to its share.
        assert_eq!(admit_many(&nodes[1], LIMIT, 5).await, 5);
        until_shared(&nodes).await;
        // Requests in flight at that moment may be counted twice, but never missed.
        let left = left(&nodes[0], 20, 1).await.0;
        assert!((20 - 12..=20 - 11).contains(&left), "{left}");
        assert_eq!(admit_many(&nodes[0], LIMIT, 2).await, 0);
        server.execute(&["SCRIPT", "FLUSH"]).await;
        assert!(admit(&nodes[1], 20).await.allowed, "scripts are brought again");
        assert!(nodes.iter().all(RedisCounters::is_shared));
    });
}

#[test]
fn counts_are_resent_after_an_eviction() {
    block_on(async {
        let server = RedisServer::start().await;
        let nodes = two_nodes(&server.url()).await;
        let base = format!("tollgate:{{{}}}:work", account(1));
        for part in ["", ":times"] {
            let before = admit_many(&nodes[0], 100, 3).await;
            assert_eq!(before, 3);
            let used = 100 - left(&nodes[0], 100, 1).await.0;
            server.execute(&["DEL", &format!("{base}{part}")]).await;
            assert!(admit(&nodes[0], 100).await.allowed);
            assert_eq!(left(&nodes[1], 100, 1).await.0, 100 - used - 1, "{part}");
        }
    });
}

#[test]
fn slow_servers_are_dropped_until_they_respond_in_time() {
    block_on(async {
        let server = RedisServer::start().await;
        let route = SlowRoad::to(server.address()).await;
        let nodes = two_with(|node| RedisConfig {
            decision_timeout: Duration::from_millis(200),
            ..config(route.url(), node)
        })
        .await;
        route.set_delay(Duration::from_millis(600));
        assert_eq!(admit_many(&nodes[0], LIMIT, 9).await, 5);
        until_alone(&nodes).await;
        assert_eq!(admit_many(&nodes[1], LIMIT, 9).await, 5);
        route.set_delay(Duration::ZERO);
        until_shared(&nodes).await;
        for node in &nodes {
            assert_eq!(admit_many(node, LIMIT, 2).await, 0);
        }
    });
}

#[test]
fn corrections_are_sent_when_the_server_is_back() {
    block_on(async {
        let mut server = RedisServer::start().await;
        let nodes = two_nodes(&server.url()).await;
        assert!(nodes[0].reserve(account(1), 600, 1_000).await.unwrap().allowed);
        assert!(!nodes[1].reserve(account(1), 600, 1_000).await.unwrap().allowed);
        // Corrections are reported without another request to this node.
        nodes[0].correct(account(1), 600, 100).await.unwrap();
        eventually("the other node knows", async || {
            left(&nodes[1], 1, 1_000).await.1 == 900
        })
        .await;
        assert!(nodes[0].reserve(account(1), 400, 1_000).await.unwrap().allowed);
        server.kill().await;
        until_alone(&nodes).await;
        nodes[0].correct(account(1), 400, 50).await.unwrap();
        assert_eq!(left(&nodes[0], 1, 1_000).await.1, 500 - 150, "of its share");
        server.restart().await;
        until_shared(&nodes).await;
        assert_eq!(left(&nodes[1], 1, 1_000).await.1, 850);
    });
}

#[test]
fn unused_loans_are_returned() {
    block_on(async {
        let server = RedisServer::start().await;
        let nodes = two_nodes(&server.url()).await;
        let admitted = admit_many(&nodes[0], 100_000, 300).await;
        assert_eq!(admitted, 300);
        eventually("the rest of the loan is back", async || {
            left(&nodes[1], 100_000, 1).await.0 == 100_000 - 300
        })
        .await;
        assert_eq!(admit_many(&nodes[0], 100_000, 300).await, 300);
        nodes[0].close().await;
        assert_eq!(
            left(&nodes[1], 100_000, 1).await.0,
            100_000 - 600,
            "at its end, too"
        );
        eventually("the other is alone alive", async || nodes[1].nodes() == 1).await;
    });
}

#[test]
fn servers_that_start_later_are_found() {
    block_on(async {
        let mut server = RedisServer::start().await;
        server.kill().await;
        let alone = node(config(server.url(), 1));
        assert_eq!(
            admit_many(&alone, LIMIT, 15).await,
            LIMIT,
            "a node that knows of no other has all of it"
        );
        server.restart().await;
        assert!(alone.wait_until_shared(LONG).await);
        let other = node(config(server.url(), 2));
        assert!(other.wait_until_shared(LONG).await);
        eventually("it was told", async || left(&other, 20, 1).await.0 == 10).await;
        assert!(!admit(&other, LIMIT).await.allowed);
    });
}

#[test]
fn keys_name_their_account_and_expire() {
    block_on(async {
        let server = RedisServer::start().await;
        let config = |prefix: &str| RedisConfig {
            prefix: prefix.to_owned(),
            ..config(server.url(), 1)
        };
        let (one, other) = (node(config("one")), node(config("other")));
        assert!(one.wait_until_shared(LONG).await && other.wait_until_shared(LONG).await);
        assert!(admit(&one, 1).await.allowed);
        assert!(admit(&other, 1).await.allowed, "another installation");
        for limit in [100, 100_000] {
            assert!(one.reserve(account(2), 5, limit).await.unwrap().allowed);
            one.correct(account(2), 5, 1).await.unwrap();
        }
        eventually("it was told", async || {
            let of_account = format!("one:{{{}}}:tokens:*", account(2));
            server
                .execute(&["EVAL", "return #redis.call('KEYS', ARGV[1])", "0", &of_account])
                .await
                == ":1"
        })
        .await;
        let strange = "local strange = {} for _, key in ipairs(redis.call('KEYS', '*')) do \
            if redis.call('PTTL', key) < 0 or not (key:find('^one:{[%w_]+}:') or key:find('^other:{[%w_]+}:')) then \
            strange[#strange + 1] = key end end return table.concat(strange, ' ')";
        assert_eq!(server.execute(&["EVAL", strange, "0"]).await, "$0");
    });
}

#[test]
fn addresses_are_checked_and_servers_probed() {
    for url in [
        "redis://127.0.0.1:6379/0",
        "rediss://u:secret@cache.internal:6380",
        "redis://[::1]",
    ] {
        assert_eq!(check_url(url), Ok(()), "{url}");
    }
    for url in [
        "",
        "127.0.0.1:6379",
        "http://127.0.0.1",
        "redis://",
        "redis://h:6379/none",
    ] {
        assert!(check_url(url).is_err(), "{url}");
    }
    block_on(async {
        let mut server = RedisServer::start().await;
        let found = probe(&server.url()).await.unwrap();
        assert!(found.version.is_some());
        assert_eq!(found.evicts, Some(false));
        server
            .execute(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
            .await;
        assert_eq!(probe(&server.url()).await.unwrap().evicts, Some(true));
        server.kill().await;
        probe(&server.url()).await.unwrap_err();
    });
}
