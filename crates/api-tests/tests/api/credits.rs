//! Credit lots, refunds, exports and statements: the command line beside a running server.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{CommandLine, Gateway, Storage, execute_embedded, nanos};

use crate::money::holds::account_with;
use crate::scene::{CHAT, PLAIN, Scene, credits, flat_bound, hello, with};

/// Price of a token of [`PLAIN`], in nano-credits.
const PRICE: i64 = 1_000;
/// Cost of the upstream's default answer, in nano-credits.
const COST: i64 = 6 * PRICE;

const ENGINES: [Storage; 2] = [Storage::Sqlite, Storage::Postgres];

fn body() -> Value {
    with(hello(json!({"model": PLAIN})), json!({"max_tokens": 100}))
}

/// Returns the hold for [`body`], in nano-credits.
fn bound() -> i64 {
    flat_bound(&body(), PRICE, 100)
}

/// Makes a successful call and returns its request id.
async fn call(scene: &Scene, key: &str) -> String {
    let response = scene.client().post_json(CHAT, key, &body()).await;
    assert_eq!(response.status, 200, "{}", response.text());
    response.header("x-request-id").unwrap().to_owned()
}

async fn grant(command_line: &CommandLine, account: &str, amount: i64, terms: &[&str]) {
    let amount = credits(amount);
    let command = [&["credits", "grant", account, &amount], terms].concat();
    command_line.run(&command).await;
}

/// Returns the kind and the remaining nano-credits of each lot.
async fn lots(command_line: &CommandLine, account: &str, more: &[&str]) -> Vec<(String, i64)> {
    let command = [&["credits", "list", account], more].concat();
    let found = command_line.run(&command).await;
    let found = found.as_array().unwrap().iter();
    found
        .map(|lot| {
            let kind = lot["kind"].as_str().unwrap().to_owned();
            (kind, nanos(&lot["remaining"]))
        })
        .collect()
}

/// Executes SQL statements in the gateway's database.
async fn execute(gateway: &Gateway, statements: &str) {
    match gateway.database() {
        Some(database) => database.execute(statements).await,
        None => execute_embedded(&gateway.data().join("tollgate.db"), statements).await,
    }
}

fn expect_refusal(finished: &tollgate_testkit::gateway::Finished, code: i32, text: &str) {
    assert_eq!(finished.code, code, "{finished:?}");
    assert!(finished.stderr.contains(text), "{finished:?}");
    assert!(finished.stdout.is_empty(), "{finished:?}");
}

#[tokio::test]
async fn lots_are_spent_by_priority_and_expiry() {
    for storage in ENGINES {
        let scene = Scene::start_on(storage, "").await;
        let (account, key) = account_with(&scene, 2 * bound()).await;
        let command_line = scene.gateway.command_line();
        let gift = [
            "--kind",
            "promotion",
            "--expires-in-days",
            "30",
            "--note",
            "launch",
        ];
        grant(&command_line, &account, COST + 1, &gift).await;
        grant(&command_line, &account, 2, &["--priority", "7"]).await;
        let promotion = |left| ("promotion".to_owned(), left);
        let purchase = |left| ("purchase".to_owned(), left);
        let all = [purchase(2), promotion(COST + 1), purchase(2 * bound())];
        assert_eq!(lots(&command_line, &account, &[]).await, all);
        call(&scene, &key).await;
        let left = [promotion(3), purchase(2 * bound())];
        assert_eq!(lots(&command_line, &account, &[]).await, left);
        assert_eq!(lots(&command_line, &account, &["--all"]).await.len(), 3);
        let balance = scene.gateway.balance(&account).await;
        assert_eq!((balance.credits, balance.held), (2 * bound() + 3, 0));
        let table = command_line.try_run(&["credits", "list", &account]).await;
        assert!(
            table.stdout.contains("launch") && table.stdout.contains("never"),
            "{table:?}"
        );
        scene.finish().await;
    }
}

#[tokio::test]
async fn expired_lots_cannot_be_spent() {
    for storage in ENGINES {
        let mut scene = Scene::start_on(storage, "").await;
        let (account, key) = account_with(&scene, 5).await;
        let command_line = scene.gateway.command_line();
        grant(&command_line, &account, bound(), &["--expires-at", "2999-01-01"]).await;
        call(&scene, &key).await;
        execute(
            &scene.gateway,
            "UPDATE credit_lot SET expires_at = created_at + 1 WHERE expires_at IS NOT NULL",
        )
        .await;
        // Every start expires lots before it serves requests.
        scene.gateway.stop().await;
        scene.gateway.restart().await;
        let balance = scene.gateway.balance(&account).await;
        assert_eq!((balance.credits, balance.held), (5, 0));
        let response = scene.client().post_json(CHAT, &key, &body()).await;
        assert_eq!(response.status, 402, "{}", response.text());
        let listed = command_line.run(&["credits", "list", &account, "--all"]).await;
        assert_eq!(nanos(&listed[0]["expired"]), bound() - COST, "{listed}");
        scene.finish().await;
    }
}

#[tokio::test]
async fn invalid_grant_terms_are_refused() {
    let scene = Scene::start().await;
    let (account, _) = account_with(&scene, 5).await;
    let command_line = scene.gateway.command_line();
    let long = "x".repeat(201);
    let before = scene.gateway.ledger_check().await;
    for (terms, code, text) in [
        (&["--expires-at", "2020-01-01"][..], 2, "in the future"),
        (&["--expires-at", "soon"], 2, "RFC 3339"),
        (&["--expires-in-days", "0"], 2, "--expires-in-days"),
        (&["--expires-in-days", "36501"], 2, "--expires-in-days"),
        (
            &["--expires-in-days", "1", "--expires-at", "2999-01-01"],
            2,
            "cannot be used with",
        ),
        (&["--priority", "256"], 2, "--priority"),
        (&["--kind", "refund"], 2, "--kind"),
        (&["--note", &long], 2, "200 characters"),
        (&["--note", "two\nlines"], 2, "control characters"),
    ] {
        let command = [&["credits", "grant", &account, "1"], terms].concat();
        expect_refusal(&command_line.try_run(&command).await, code, text);
    }
    assert_eq!(scene.gateway.ledger_check().await, before, "nothing was written");
    let longest = "ö".repeat(200);
    let edges = [
        "--priority",
        "255",
        "--expires-in-days",
        "36500",
        "--note",
        &longest,
    ];
    grant(&command_line, &account, 1, &edges).await;
    let unknown = "acct_00000000000000000000000000000001";
    for command in [
        ["credits", "list", unknown].as_slice(),
        &["credits", "grant", unknown, "1"],
    ] {
        expect_refusal(&command_line.try_run(command).await, 1, "account does not exist");
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_charge_is_refunded_once() {
    for storage in ENGINES {
        let scene = Scene::start_on(storage, "").await;
        let (account, key) = account_with(&scene, 2 * bound()).await;
        let command_line = scene.gateway.command_line();
        let request = call(&scene, &key).await;
        let half = credits(COST / 2);
        let part = [
            "credits", "refund", &request, "--amount", &half, "--reason", "too slow",
        ];
        let refund = command_line.run(&part).await;
        assert_eq!(
            (nanos(&refund["credits"]), nanos(&refund["allowance"])),
            (COST / 2, 0)
        );
        assert_eq!(refund["account"], account);
        assert_eq!(refund["repeated"], false);
        let again = command_line.run(&part).await;
        assert_eq!((&again["id"], &again["repeated"]), (&refund["id"], &json!(true)));
        let too_much = credits(COST / 2 + 1);
        let refused = ["credits", "refund", &request, "--amount", &too_much];
        expect_refusal(
            &command_line.try_run(&refused).await,
            2,
            "can be refunded: 0.000006 were charged",
        );
        let rest = command_line
            .run(&["credits", "refund", &request, "--key", "complaint 17"])
            .await;
        assert_eq!(nanos(&rest["credits"]), COST / 2);
        let nothing = command_line.try_run(&["credits", "refund", &request]).await;
        expect_refusal(&nothing, 2, "0 credits of this call can be refunded");

        let row = scene.gateway.usage(&key, "").await["data"][0].clone();
        assert_eq!(["cost", "refunded"].map(|name| nanos(&row[name])), [COST, COST]);
        assert_eq!(scene.gateway.balance(&account).await.credits, 2 * bound());
        let of_kind: Vec<_> = lots(&command_line, &account, &[]).await;
        let expected = [
            ("purchase", 2 * bound() - COST),
            ("refund", COST / 2),
            ("refund", COST / 2),
        ];
        assert_eq!(of_kind, expected.map(|(kind, left)| (kind.to_owned(), left)));

        let unknown = ["credits", "refund", "req_00000000000000000000000000000001"];
        expect_refusal(&command_line.try_run(&unknown).await, 1, "no usage row");
        let malformed = command_line.try_run(&["credits", "refund", "req_1"]).await;
        expect_refusal(&malformed, 2, "x-request-id");
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_refund_returns_the_allowance_to_its_week() {
    for storage in ENGINES {
        let plan = format!(
            "[plans.week]\nprice = \"0\"\nallowance = \"{}\"\nmodels = [\"*/plain\"]\n",
            credits(COST - PRICE)
        );
        let scene = Scene::start_on(storage, &plan).await;
        let (account, key) = account_with(&scene, bound()).await;
        let command_line = scene.gateway.command_line();
        let create = ["subscriptions", "create", "--account", &account, "--plan", "week"];
        let show = ["credits", "balance", &account];
        let before = command_line.run(&show).await;
        assert!(before.get("allowance").is_none(), "{before}");
        command_line.run(&create).await;
        let output = command_line.run(&show).await;
        assert_eq!(
            ["credits", "allowance", "spendable"].map(|name| nanos(&output[name])),
            [bound(), COST - PRICE, bound() + COST - PRICE]
        );
        let request = call(&scene, &key).await;
        let output = command_line.run(&["credits", "refund", &request]).await;
        assert_eq!(
            ["credits", "allowance"].map(|name| nanos(&output[name])),
            [PRICE, COST - PRICE]
        );
        let usage = scene.gateway.usage(&key, "").await;
        assert_eq!(nanos(&usage["plan"]["weekly_window"]["used"]), 0);
        assert_eq!(nanos(&usage["balance"]["credits"]), bound());
        scene.finish().await;
    }
}

#[tokio::test]
async fn refund_grant_withdraws_the_remaining_credits() {
    for storage in ENGINES {
        let scene = Scene::start_on(storage, "").await;
        let (account, key) = account_with(&scene, 2 * bound()).await;
        let command_line = scene.gateway.command_line();
        grant(&command_line, &account, 9, &["--kind", "promotion"]).await;
        call(&scene, &key).await;
        let listed = command_line.run(&["credits", "list", &account]).await;
        let id = |place: usize| listed[place]["id"].as_str().unwrap().to_owned();
        let (purchase, gift) = (id(0), id(1));
        let taken = command_line.run(&["credits", "refund-grant", &purchase]).await;
        assert_eq!(nanos(&taken["withdrawn"]), 2 * bound() - COST);
        assert_eq!(taken["account"], account);
        let entries = command_line.run(&["audit", "list", "--account", &account]).await;
        let entries = entries.as_array().unwrap();
        let of_grant =
            |entry: &&Value| entry["action"] == "credits.refund_grant" && entry["object"] == purchase;
        assert_eq!(entries.iter().filter(of_grant).count(), 1, "{entries:?}");
        assert_eq!(scene.gateway.balance(&account).await.credits, 9);
        let taken = command_line.run(&["credits", "refund-grant", &gift]).await;
        assert_eq!(nanos(&taken["withdrawn"]), 9);
        assert_eq!(scene.gateway.balance(&account).await.credits, 0);
        let export = ["ledger", "export", "--account", &account, "--format", "jsonl"];
        let rows = command_line.try_run(&export).await.stdout;
        let legs = |leg: &str| rows.lines().filter(|row| row.contains(leg)).count();
        assert_eq!(
            (legs("\"withdraw\""), legs("\"revoke_promotion\"")),
            (1, 1),
            "{rows}"
        );
        for (id, code, text) in [
            (purchase.as_str(), 2, "The grant has no unused credits"),
            (&gift, 2, "The grant has no unused credits"),
            (
                "xfer_00000000000000000000000000000001",
                1,
                "The grant does not exist.",
            ),
        ] {
            let refused = command_line.try_run(&["credits", "refund-grant", id]).await;
            expect_refusal(&refused, code, text);
        }
        scene.finish().await;
    }
}

/// Returns the header of an export as its documentation lists the columns.
fn documented_columns(export: &str) -> String {
    let page = include_str!("../../../../docs/credits.md");
    let start = format!("| {export} | ");
    let row = page.lines().find_map(|line| line.strip_prefix(&start));
    let columns = row.and_then(|row| row.split(" | ").next());
    columns
        .unwrap_or_else(|| panic!("no row for {export}"))
        .replace(['`', ' '], "")
}

#[tokio::test]
async fn exports_contain_every_row() {
    for storage in ENGINES {
        let scene = Scene::start_on(storage, "").await;
        let (account, key) = account_with(&scene, 4 * bound()).await;
        let command_line = scene.gateway.command_line();
        for _ in 0..3 {
            call(&scene, &key).await;
        }
        scene.settled().await;
        let check = scene.gateway.ledger_check().await;
        let lines = |finished: &tollgate_testkit::gateway::Finished| -> Vec<String> {
            assert_eq!(finished.code, 0, "{finished:?}");
            finished.stdout.lines().map(str::to_owned).collect()
        };
        let all = ["ledger", "export", "--all", "--format", "jsonl"];
        let rows = lines(&command_line.try_run(&all).await);
        assert_eq!(rows.len() as u64, check.transfers);
        let amount: i64 = rows
            .iter()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|row| row["account_id"] == account && row["leg"] == "settle")
            .map(|row| nanos(&row["amount"]))
            .sum();
        assert_eq!(amount, 3 * COST);

        let mine = ["ledger", "export", "--account", &account];
        let rows = lines(&command_line.try_run(&mine).await);
        assert_eq!(rows[0], documented_columns("ledger"));
        assert_eq!(rows.len(), 1 + 1 + 3 * 3);
        let grant = rows.iter().find(|row| row.contains(",grant,grant,")).unwrap();
        let columns: Vec<&str> = grant.split(',').collect();
        assert_eq!(columns[0], account);
        assert_eq!(columns[4..6], ["cash", "credits"]);
        assert_eq!(nanos(&json!(columns[6])), 4 * bound());

        let file = scene.gateway.data().join("usage.csv");
        let out = [
            "usage",
            "export",
            "--account",
            &account,
            "--out",
            file.to_str().unwrap(),
        ];
        assert!(lines(&command_line.try_run(&out).await).is_empty());
        let text = std::fs::read_to_string(&file).unwrap();
        let mut rows = text.lines();
        let header = rows.next().unwrap();
        assert_eq!(header, documented_columns("usage"));
        let names: Vec<&str> = header.split(',').collect();
        let cost = names.iter().position(|name| *name == "cost").unwrap();
        let costs = rows.map(|row| nanos(&json!(row.split(',').nth(cost).unwrap())));
        assert_eq!(costs.collect::<Vec<_>>(), [COST; 3]);

        let later = ["usage", "export", "--account", &account, "--from", "2999-01-01"];
        assert!(lines(&command_line.try_run(&later).await).is_empty());
        let earlier = [
            "usage",
            "export",
            "--all",
            "--to",
            "2999-01-01",
            "--format",
            "jsonl",
        ];
        assert_eq!(lines(&command_line.try_run(&earlier).await).len(), 3);
        for (command, code, text) in [
            (&["ledger", "export"][..], 2, "--account"),
            (&["ledger", "export", "--all", "--from", "soon"], 2, "RFC 3339"),
            (
                &[
                    "usage",
                    "export",
                    "--account",
                    "acct_00000000000000000000000000000001",
                ],
                1,
                "account does not exist",
            ),
            (
                &["usage", "export", "--all", "--out", "/nowhere/at/all.csv"],
                1,
                "cannot write",
            ),
        ] {
            expect_refusal(&command_line.try_run(command).await, code, text);
        }
        scene.finish().await;
    }
}

/// Returns the month of an instant and the month before, as `YYYY-MM`.
fn months(instant: &str) -> (String, String) {
    let (year, month): (i32, u32) = (instant[..4].parse().unwrap(), instant[5..7].parse().unwrap());
    let before = match month {
        1 => (year - 1, 12),
        _ => (year, month - 1),
    };
    (
        instant[..7].to_owned(),
        format!("{:04}-{:02}", before.0, before.1),
    )
}

#[tokio::test]
async fn a_statement_adds_up() {
    for storage in ENGINES {
        let plan = format!(
            "[plans.week]\nprice = \"{}\"\nallowance = \"{}\"\n",
            credits(700),
            credits(1)
        );
        let scene = Scene::start_on(storage, &plan).await;
        let (account, key) = account_with(&scene, 3 * bound()).await;
        let command_line = scene.gateway.command_line();
        grant(
            &command_line,
            &account,
            50,
            &["--kind", "promotion", "--expires-in-days", "1"],
        )
        .await;
        grant(&command_line, &account, 40, &["--priority", "200"]).await;
        execute(
            &scene.gateway,
            "UPDATE credit_lot SET expires_at = created_at + 1 WHERE expires_at IS NOT NULL",
        )
        .await;
        let listed = command_line.run(&["credits", "list", &account]).await;
        let last = listed[1]["id"].as_str().unwrap();
        command_line.run(&["credits", "refund-grant", last]).await;
        let create = ["subscriptions", "create", "--account", &account, "--plan", "week"];
        command_line.run(&create).await;
        let request = call(&scene, &key).await;
        call(&scene, &key).await;
        command_line
            .run(&["credits", "refund", &request, "--amount", &credits(5)])
            .await;

        let (month, before) = months(listed[0]["created_at"].as_str().unwrap());
        let statement = command_line.run(&["statements", "show", &account, &month]).await;
        let amounts =
            |names: &[&str]| -> Vec<i64> { names.iter().map(|name| nanos(&statement[*name])).collect() };
        let names = [
            "opening",
            "purchases",
            "promotions",
            "refunds",
            "charged",
            "plan_fees",
            "expired",
            "withdrawn",
        ];
        let expected = [0, 3 * bound() + 40, 50, 5, 2 * COST - 1, 700, 50, 40];
        assert_eq!(amounts(&names), expected, "{statement}");
        let closing = 3 * bound() + 5 - (2 * COST - 1) - 700;
        assert_eq!(amounts(&["closing", "allowance_used"]), [closing, 1]);
        assert_eq!(scene.gateway.balance(&account).await.credits, closing);
        assert_eq!(
            (&statement["plan_periods"], &statement["faults"]),
            (&json!(1), &json!([]))
        );
        let charge = &statement["charges"][0];
        assert_eq!(
            (&charge["model"], &charge["endpoint"]),
            (&json!(PLAIN), &json!(CHAT))
        );
        assert_eq!(charge["calls"], 2);
        assert_eq!(
            ["paid", "included"].map(|name| nanos(&charge[name])),
            [2 * COST - 1, 1]
        );

        let statement = command_line.run(&["statements", "show", &account, &before]).await;
        assert_eq!(
            (nanos(&statement["opening"]), nanos(&statement["closing"])),
            (0, 0)
        );
        let people = command_line
            .try_run(&["statements", "show", &account, &month])
            .await;
        assert!(people.stdout.contains("closing balance"), "{people:?}");
        for (month, text) in [
            ("2999-01", "not started"),
            ("2026-13", "such as 2026-11"),
            ("now", "such as 2026-11"),
        ] {
            let refused = command_line
                .try_run(&["statements", "show", &account, month])
                .await;
            expect_refusal(&refused, 2, text);
        }
        scene.finish().await;
    }
}

/// Two nodes on one database: one grants credits, and the other spends them. Concurrent commands
/// expire a lot and refund a charge only once.
#[tokio::test]
async fn nodes_share_credit_lots() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let options = Scene::options(&scene.upstream, Storage::Postgres, "");
    let node = scene.gateway.start_node(options).await;
    let (account, key) = account_with(&scene, 2 * bound()).await;
    let command_line = scene.gateway.command_line();
    grant(&command_line, &account, bound(), &["--expires-in-days", "1"]).await;
    let response = node.client().post_json(CHAT, &key, &body()).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let request = response.header("x-request-id").unwrap().to_owned();
    execute(
        &scene.gateway,
        "UPDATE credit_lot SET expires_at = created_at + 1 WHERE expires_at IS NOT NULL",
    )
    .await;
    let list = ["credits", "list", &account];
    let refund = ["credits", "refund", &request];
    let (one, two) = tokio::join!(command_line.run(&list), command_line.run(&list));
    assert_eq!(one, two);
    let (one, two) = tokio::join!(command_line.run(&refund), command_line.run(&refund));
    let repeated = [&one, &two].map(|output| output["repeated"].as_bool().unwrap());
    assert_ne!(repeated[0], repeated[1]);
    assert_eq!(scene.gateway.balance(&account).await.credits, 2 * bound() + COST);
    node.finish().await;
    scene.finish().await;
}
