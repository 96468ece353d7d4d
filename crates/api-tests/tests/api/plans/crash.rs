//! The allowance after the process was killed.

use tollgate_testkit::gateway::Balance;
use tollgate_testkit::upstream::{Gate, Reply};

use super::{COST, PRICE, body, bound, plan, subscribe, used};
use crate::money::holds::account_with;
use crate::scene::{CHAT, Scene};

#[tokio::test]
async fn the_allowance_held_by_a_killed_call_is_released() {
    let allowance = bound() - 2 * PRICE;
    let mut scene = Scene::start_with(&plan("week", allowance)).await;
    let (account, key) = account_with(&scene, bound()).await;
    subscribe(&scene.gateway, &account, "week").await;
    let settled = scene.client().post_json(CHAT, &key, &body()).await;
    assert_eq!(settled.status, 200, "{}", settled.text());
    let gate = Gate::new();
    scene.upstream.push(Reply::words(3).hold_head(&gate));
    let (client, own) = (scene.client(), key.clone());
    let call = tokio::spawn(async move { client.try_post_json(CHAT, &own, &body()).await });
    scene.upstream.wait_for_requests(2).await;
    assert_eq!(used(&scene.gateway, &key).await, allowance, "all of it is held");
    let held = Balance {
        credits: bound() - 2 * PRICE - COST,
        held: bound(),
    };
    assert_eq!(scene.gateway.balance(&account).await, held);

    scene.gateway.kill().await;
    assert!(
        call.await
            .unwrap()
            .is_none_or(|response| !response.whole || response.status != 200)
    );
    scene.gateway.restart().await;
    let back = Balance {
        credits: bound(),
        held: 0,
    };
    assert_eq!(scene.gateway.balance(&account).await, back);
    assert_eq!(used(&scene.gateway, &key).await, COST);
    let rows = scene.gateway.usage(&key, "").await["data"].clone();
    assert_eq!(
        (&rows[0]["outcome"], &rows[0]["plan_name"]),
        (&"crashed".into(), &"week".into())
    );
    gate.open();
    let again = scene.client().post_json(CHAT, &key, &body()).await;
    assert_eq!(again.status, 200, "{}", again.text());
    assert_eq!(used(&scene.gateway, &key).await, 2 * COST);
    scene.finish().await;
}
