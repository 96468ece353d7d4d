//! Jobs with several models: one hold of a known amount, one usage row, and separately priced
//! parts.

use std::time::Duration;

use serde_json::json;
use tollgate_billing::{FixedTerms, Hold, HoldRequest, Scope, audit_ledger, check_ledger};
use tollgate_catalog::{COMPOSITION, composition_version};
use tollgate_operations::{Actor, ShowReceipt};
use tollgate_storage::{JobClaim, JobEnd, LeasedJob, NewJob, UsageFilter, UsagePage, UsagePart};
use tollgate_types::usage::Outcome;
use tollgate_types::{
    Credits, Error, ErrorCode, JobId, JobStatus, KeyId, Prices, Principal, RequestId, Timestamp, Usage,
    WorkerId,
};

use crate::admin::Office;
use crate::app::{MODELS, THINKING, Tenant};

/// One credit in nano-credits.
const CREDIT: i64 = 1_000_000_000;

fn terms() -> FixedTerms {
    FixedTerms {
        price_version: composition_version(),
        not_covered_by: [].into(),
    }
}

fn request(office: &Office, tenant: &Tenant, max_cost: Option<Credits>) -> HoldRequest {
    let app_state = &office.scene.app_state;
    HoldRequest {
        account: tenant.id,
        principal: Principal::Key(KeyId::from_u128(1)),
        request: RequestId::from_u128(app_state.ids.next(app_state.clock.now())),
        hold: None,
        public_model: COMPOSITION.into(),
        endpoint: "/v1/videos/compose",
        max_cost,
        accepted_at: app_state.clock.now(),
        ahead: Duration::ZERO,
        lifetime: Duration::from_secs(60),
    }
}

/// Accepts a job with a hold of `nanos` nano-credits.
async fn accept(office: &Office, hold: &HoldRequest, nanos: i64) -> Result<(), Error> {
    let (scene, amount) = (&office.scene, Credits::from_nanos(nanos));
    let job = NewJob {
        id: JobId::from_u128(hold.request.as_u128()),
        kind: "test.composition".into(),
        body: Vec::new(),
        start_by: None,
        webhook: None,
    };
    let ledger = &*scene.app_state.storage.ledger;
    let checked = Hold::check_amount(ledger, hold, &terms(), amount).await;
    let (jobs, pipeline) = (scene.app_state.jobs.clone(), &scene.services.pipeline);
    let accepted = pipeline.accept_job(jobs, job, hold, terms(), amount).await;
    let code = |result: &Result<(), Error>| result.as_ref().map_err(|error| error.code).copied();
    assert_eq!(code(&checked), code(&accepted));
    accepted
}

/// Returns a part with the usage of one model, at the model's current price.
fn part(office: &Office, number: u32, model: &str, provider: &str, usage: Usage) -> UsagePart {
    let catalog = office.scene.app_state.catalog.current();
    let model = catalog.resolve(model).unwrap().clone();
    UsagePart {
        number,
        name: format!("scene {number}").into(),
        model: model.id.clone(),
        target: provider.into(),
        price_version: model.price_version,
        usage,
        cost: model.prices.cost(&usage),
    }
}

async fn lease(office: &Office) -> LeasedJob {
    let claim = JobClaim {
        worker: WorkerId::from_u128(1),
        now: office.scene.app_state.clock.now(),
        until: Timestamp::from_micros(i64::MAX),
        limit: 1,
        per_account: 1,
        caps: Default::default(),
    };
    let mut leased = office.scene.app_state.storage.jobs.claim(claim).await.unwrap();
    leased.remove(0)
}

/// Completes the job and settles its parts.
async fn end(office: &Office, leased: &LeasedJob, parts: Vec<UsagePart>) {
    let (pipeline, ahead) = (&office.scene.services.pipeline, Duration::ZERO);
    let settlement = pipeline.conclude_parts(&leased.job, &parts, Outcome::Ok, None, ahead);
    let end = JobEnd {
        status: JobStatus::Completed,
        result: None,
        error: None,
        settlement,
        parts,
        events: Vec::new(),
    };
    let jobs = &office.scene.app_state.storage.jobs;
    jobs.finish(leased.lease, end).await.unwrap();
}

async fn has_consistent_ledger(office: &Office) {
    let ledger = &*office.scene.app_state.storage.ledger;
    let report = check_ledger(ledger, true).await.unwrap();
    assert!(report.is_clean(), "{:?}", report.faults);
    let report = audit_ledger(ledger, Scope::default()).await.unwrap();
    assert!(report.is_clean(), "{:?}", report.differences);
}

#[tokio::test]
async fn what_several_models_did_is_one_row_with_parts() {
    let office = Office::open().await;
    let tenant = office.scene.tenant(3).await;
    accept(&office, &request(&office, &tenant, None), 2 * CREDIT)
        .await
        .unwrap();
    let leased = lease(&office).await;
    assert_eq!(leased.job.held, Credits::from_nanos(2 * CREDIT));
    // Later price changes have no effect: each part has the price version of its acceptance.
    let parts = vec![
        part(&office, 0, MODELS[0], "chat", Usage::tokens(250_000, 250_001)),
        part(&office, 1, THINKING, "responses", Usage::tokens(400_000, 0)),
    ];
    office.scene.change_prices("input = \"3\", output = \"2\"");
    office.scene.reload().await.unwrap();
    end(&office, &leased, parts).await;
    let balance = office.scene.balance(&tenant).await;
    let paid = 500_001_000 + 400_000_000;
    assert_eq!(
        (balance.credits.nanos(), balance.held),
        (3 * CREDIT - paid, Credits::ZERO)
    );
    has_consistent_ledger(&office).await;

    let listed = office.scene.get(&tenant, "/v1/account/usage").await;
    let row = &listed.body["data"][0];
    assert_eq!(
        (&row["model"], &row["cost"]),
        (&json!("compose"), &json!("0.900001"))
    );
    assert_eq!(row["usage"]["total_tokens"], 900_001);
    assert_eq!(row["parts"].as_array().unwrap().len(), 2);
    let (first, second) = (&row["parts"][0], &row["parts"][1]);
    assert_eq!(
        (&first["name"], &first["model"], &first["cost"]),
        (&json!("scene 0"), &json!(MODELS[0]), &json!("0.500001"))
    );
    assert_eq!(first["usage"]["output_tokens"], 250_001);
    assert_eq!(
        (&second["model"], &second["cost"]),
        (&json!(THINKING), &json!("0.4"))
    );
    assert!(!listed.text.contains("provider"), "{}", listed.text);

    // Operators see the provider of each part. The row has no provider because there were two.
    let path = format!("/admin/v1/accounts/{}/usage", tenant.id);
    let seen = office.get(&path).await;
    let seen = &seen["data"][0];
    assert_eq!((&seen["provider"], &seen["overrun"]), (&json!(""), &json!("0")));
    assert_eq!(
        (&seen["parts"][1]["provider"], &seen["parts"][1]["usage"]),
        (&json!("responses"), &json!({"input": 400_000}))
    );

    // The receipt contains the price of each part and matches the ledger.
    let command = ShowReceipt {
        request: leased.job.request,
    };
    let shown = office
        .scene
        .app_state
        .operations
        .execute(&Actor::command_line(), command)
        .await;
    let receipt = shown.unwrap();
    assert!(receipt.matches, "{receipt:?}");
    assert_eq!((receipt.lines.len(), receipt.parts.len()), (0, 2));
    assert_eq!((receipt.cost.nanos(), receipt.charge.nanos()), (paid, paid));
    assert_eq!(receipt.parts[0].sum, "500001000000000");

    // Other tenants do not see the parts.
    let other = office.scene.tenant(1).await;
    let theirs = office.scene.get(&other, "/v1/account/usage").await;
    assert_eq!(theirs.body["data"], json!([]));
    let usage = &office.scene.app_state.storage.usage;
    assert_eq!(usage.parts(other.id, leased.job.hold).await.unwrap(), []);
}

#[tokio::test]
async fn what_parts_cost_beyond_the_hold_is_the_operators() {
    let office = Office::open().await;
    let tenant = office.scene.tenant(1).await;
    accept(&office, &request(&office, &tenant, None), 1_000)
        .await
        .unwrap();
    let leased = lease(&office).await;
    let parts = vec![
        part(&office, 0, MODELS[0], "chat", Usage::tokens(1, 0)),
        part(&office, 1, MODELS[1], "chat", Usage::tokens(0, 2)),
    ];
    end(&office, &leased, parts).await;
    let page = UsagePage {
        after: None,
        limit: 9,
    };
    let usage = &office.scene.app_state.storage.usage;
    let rows = usage.list(tenant.id, UsageFilter::default(), page).await.unwrap();
    let row = &rows[0];
    assert_eq!((row.charge.nanos(), row.overrun.nanos()), (1_000, 2_000));
    assert_eq!((row.usage, &*row.target), (Usage::tokens(1, 2), "chat"));
    has_consistent_ledger(&office).await;

    // A job without parts costs nothing and has no provider.
    accept(&office, &request(&office, &tenant, None), 1_000)
        .await
        .unwrap();
    let leased = lease(&office).await;
    end(&office, &leased, Vec::new()).await;
    let rows = usage.list(tenant.id, UsageFilter::default(), page).await.unwrap();
    assert_eq!((rows[0].charge, rows[0].provider()), (Credits::ZERO, ""));
    let listed = office.scene.get(&tenant, "/v1/account/usage").await;
    assert_eq!(listed.body["data"][0].get("parts"), None);
    has_consistent_ledger(&office).await;
}

#[tokio::test]
async fn what_is_refused_is_not_there() {
    let office = Office::open().await;
    let tenant = office.scene.tenant(1).await;
    let max = Some(Credits::from_nanos(500));
    for (max_cost, nanos, refusal) in [
        (None, CREDIT + 1, Some(ErrorCode::InsufficientCredits)),
        (max, 501, Some(ErrorCode::ParameterOutOfRange)),
        (max, 500, None),
        (None, CREDIT - 500, None),
        (None, 1, Some(ErrorCode::InsufficientCredits)),
    ] {
        let before = office.scene.balance(&tenant).await;
        let hold = request(&office, &tenant, max_cost);
        let accepted = accept(&office, &hold, nanos).await;
        assert_eq!(accepted.err().map(|error| error.code), refusal, "{nanos}");
        let id = JobId::from_u128(hold.request.as_u128());
        let job = office
            .scene
            .app_state
            .storage
            .jobs
            .get(tenant.id, id)
            .await
            .unwrap();
        assert_eq!(job.is_none(), refusal.is_some());
        let after = office.scene.balance(&tenant).await;
        let held = if refusal.is_some() { 0 } else { nanos };
        assert_eq!(after.held.nanos() - before.held.nanos(), held);
    }
    has_consistent_ledger(&office).await;
}

#[tokio::test]
async fn the_prices_of_compositions_are_recorded_from_the_start() {
    let office = Office::open().await;
    let prices = &office.scene.app_state.storage.prices;
    let found = prices.get(composition_version()).await.unwrap().unwrap();
    assert_eq!((&*found.model, found.prices), (COMPOSITION, Prices::free()));
    let active = prices.active().await.unwrap();
    assert!(
        active.iter().all(|record| record.model != COMPOSITION),
        "the composition is not a model"
    );
}
