//! Tests of parameters and origins. Tests on a storage engine are in `server/tests/app`.

use tollgate_storage::{Account, Limits};

use super::*;

#[test]
fn parameters_are_within_their_ranges() {
    let lifetime = |seconds| NewClientSecret {
        lifetime_seconds: Some(seconds),
        ..NewClientSecret::default()
    };
    let max_cost = |nanos| NewClientSecret {
        max_cost: Some(Credits::from_nanos(nanos)),
        ..NewClientSecret::default()
    };
    let max_seconds = |seconds| NewClientSecret {
        max_seconds: Some(seconds),
        ..NewClientSecret::default()
    };
    let origins = |origins: &[&str]| NewClientSecret {
        allowed_origins: origins.iter().copied().map(str::to_owned).collect(),
        ..NewClientSecret::default()
    };
    for (new, expected) in [
        (NewClientSecret::default(), Ok(600)),
        (lifetime(0), Err("expires_after.seconds")),
        (lifetime(9), Err("expires_after.seconds")),
        (lifetime(10), Ok(10)),
        (lifetime(7200), Ok(7200)),
        (lifetime(7201), Err("expires_after.seconds")),
        (lifetime(u64::MAX), Err("expires_after.seconds")),
        (max_cost(-1), Err("max_cost")),
        (max_cost(0), Ok(600)),
        (max_cost(i64::MAX), Ok(600)),
        (max_seconds(0), Err("max_seconds")),
        (max_seconds(1), Ok(600)),
        (max_seconds(u32::MAX), Ok(600)),
        (origins(&["https://example.com"; MAX_ORIGINS]), Ok(600)),
        (
            origins(&["https://example.com"; MAX_ORIGINS + 1]),
            Err("allowed_origins"),
        ),
        (
            origins(&["https://example.com", "https://example.com/"]),
            Err("allowed_origins[1]"),
        ),
        (origins(&["null"]), Err("allowed_origins[0]")),
    ] {
        let checked = check(&new);
        let outcome = checked.as_ref().map(Duration::as_secs);
        let outcome = outcome.map_err(|error| error.param.as_deref().unwrap_or_default());
        assert_eq!(outcome, expected, "{new:?}");
        let code = checked
            .err()
            .map_or(ErrorCode::InvalidParameter, |error| error.code);
        assert_eq!(code, ErrorCode::InvalidParameter);
    }
}

#[test]
fn listed_origins_are_allowed_and_no_list_allows_all() {
    let listed = &["https://example.com", "http://localhost:3000"][..];
    for (allowed, origin, expected) in [
        (&[][..], None, true),
        (&[], Some("https://example.com"), true),
        (&[], Some("null"), true),
        (listed, Some("https://example.com"), true),
        (listed, Some("http://localhost:3000"), true),
        (listed, Some("http://localhost"), false),
        (listed, Some("http://example.com"), false),
        (listed, Some("https://example.com.evil.example"), false),
        (listed, Some("null"), false),
        (listed, Some(""), false),
        (listed, None, false),
    ] {
        let secret = SecretCaller {
            caller: Caller::of_member(Arc::new(account()), MemberId::from_u128(1)),
            id: ClientSecretId::from_u128(1),
            session: String::new(),
            model: None,
            budget: None,
            max_seconds: None,
            allowed_origins: allowed.iter().copied().map(str::to_owned).collect(),
            expires_at: Timestamp::from_micros(0),
        };
        assert_eq!(secret.allows_origin(origin), expected, "{allowed:?} {origin:?}");
    }
}

fn account() -> Account {
    Account {
        id: AccountId::from_u128(1),
        name: "tenant".to_owned(),
        state: AccountState::Active,
        limits: Limits::default(),
        test_clock: None,
        created_at: Timestamp::from_micros(0),
    }
}
