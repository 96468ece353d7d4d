//! Commands in transfer to the server that owns the database.

use serde_json::{Value, json};
use tollgate_operations::wire::Request;
use tollgate_operations::{Actor, ListAccounts, Operation};
use tollgate_types::ErrorCode;

use crate::admin::Office;

#[tokio::test]
async fn commands_are_executed_by_their_names() {
    let office = Office::open().await;
    let operations = &office.scene.app_state.operations;
    let actor = Actor::command_line();
    let request = |command: &str, parameters: Value| Request {
        command: command.to_owned(),
        parameters,
    };

    let listed = Request::of(&ListAccounts::default()).unwrap();
    assert_eq!(listed.command, ListAccounts::NAME);
    let reply = operations.execute_request(&actor, listed).await.unwrap();
    assert!(reply.is_array());

    let plans = request("list_plans", Value::Null);
    assert!(
        operations
            .execute_request(&actor, plans)
            .await
            .unwrap()
            .is_array()
    );

    for refused in [
        request("list_acounts", json!({})),
        request("show_account", json!({"id": "acct_1"})),
        request("show_account", Value::Null),
        request("list_plans", json!({"account": 1})),
    ] {
        let error = operations.execute_request(&actor, refused).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidParameter);
        assert!(error.message.contains("another version"), "{}", error.message);
    }
    office.close().await;
}
