//! Client secrets of realtime sessions on the SQLite engine.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tempfile::TempDir;
use tollgate_accounts::client_secrets::MAX_LIVE_SECRETS;
use tollgate_accounts::{
    Caller, ClientSecrets, CreatedSecret, KeyError, KeyParams, KeyShape, Keys, KeysConfig, NewClientSecret,
    Pepper, SecretCaller, SessionLifetimes, Sessions, SignIns, Visitor,
};
use tollgate_backends::sqlite;
use tollgate_storage::{
    Account, AccountChange, AccountState, ClientSecret, ClientSecretCreation, ClientSecretStore, KeyMode,
    Limits, LinkPurpose, LinkTarget, Member, MemberRole, Result, Storage, StorageError, StorageErrorKind,
};
use tollgate_types::clock::ManualClock;
use tollgate_types::id::IdSource;
use tollgate_types::{
    AccountId, ClientSecretId, Clock, Credits, ErrorCode, KeyId, KeyRights, MemberId, ModelPatterns,
    Principal, Scope, SessionId, Timestamp,
};

const START: Timestamp = Timestamp::from_micros(1_795_181_400_000_000);
const ACCOUNT: AccountId = AccountId::from_u128(1);
/// Time without a request after which a session of the console ends.
const IDLE: Duration = Duration::from_mins(20);
const MICRO: Duration = Duration::from_micros(1);

/// The service on a database in a temporary directory, with a clock that tests advance.
struct Service {
    secrets: ClientSecrets,
    keys: Arc<Keys>,
    sessions: Arc<Sessions>,
    storage: Storage,
    clock: Arc<ManualClock>,
    _data: TempDir,
}

impl Service {
    /// Opens a database with one account. `change` modifies the storage of the service.
    async fn new(change: impl Fn(&mut Storage)) -> Service {
        let data = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(START));
        let settings = sqlite::SqliteConfig::new(data.path(), clock.clone());
        let mut storage = sqlite::open(settings).await.unwrap();
        let account = Account {
            id: ACCOUNT,
            name: "tenant".to_owned(),
            state: AccountState::Active,
            limits: Limits::default(),
            test_clock: None,
            created_at: START,
        };
        storage.accounts.create(account).await.unwrap();
        change(&mut storage);
        let (pepper, ids) = (Pepper::new(&[7; 32]).unwrap(), Arc::new(IdSource::new(7)));
        let config = KeysConfig {
            shape: KeyShape::new("service"),
            pepper: pepper.clone(),
            ttl: Duration::from_secs(5),
            quota: 50,
        };
        let keys = Keys::new(config, storage.keys.clone(), clock.clone(), ids.clone());
        let keys = Arc::new(keys);
        let lifetimes = SessionLifetimes {
            idle: IDLE,
            max: Duration::from_hours(1),
        };
        let sessions = Sessions::new(
            storage.sessions.clone(),
            pepper.clone(),
            clock.clone(),
            ids.clone(),
            lifetimes,
        );
        let sessions = Arc::new(sessions);
        Service {
            secrets: ClientSecrets::new(
                &storage,
                keys.clone(),
                sessions.clone(),
                pepper,
                clock.clone(),
                ids,
            ),
            keys,
            sessions,
            storage,
            clock,
            _data: data,
        }
    }

    /// Creates a key and returns its caller.
    async fn caller(&self, params: KeyParams) -> (KeyId, Caller) {
        let (key, secret) = self.keys.create(ACCOUNT, params).await.unwrap();
        let caller = self.keys.authenticate(secret.reveal()).await.unwrap();
        (key.id, caller)
    }

    async fn create(&self, caller: &Caller, new: NewClientSecret) -> CreatedSecret {
        self.secrets.create(caller, new).await.unwrap()
    }

    /// Returns the caller of a secret; `None` if the secret is invalid.
    async fn authenticate(&self, created: &CreatedSecret) -> Option<SecretCaller> {
        match self.secrets.authenticate(created.secret.reveal()).await {
            Ok(caller) => Some(caller),
            Err(KeyError::Invalid) => None,
            Err(KeyError::Storage(error)) => unreachable!("{error}"),
        }
    }

    async fn works(&self, created: &CreatedSecret) -> bool {
        self.authenticate(created).await.is_some()
    }

    async fn set_state(&self, state: AccountState) {
        let change = AccountChange {
            state: Some(state),
            ..AccountChange::default()
        };
        self.storage.accounts.change(ACCOUNT, change).await.unwrap();
    }
}

/// A secret has the rights of its key and all parameters, from each use until it expires.
#[tokio::test]
async fn secrets_open_sessions_until_they_expire() {
    let service = Service::new(|_| {}).await;
    let params = KeyParams {
        mode: KeyMode::Test,
        rights: KeyRights {
            models: Some(ModelPatterns::new(vec!["acme/*".to_owned()])),
            scopes: Some([Scope::Realtime].into_iter().collect()),
        },
        ..KeyParams::plain("key")
    };
    let (key, caller) = service.caller(params).await;
    let new = NewClientSecret {
        session: r#"{"instructions":"Say é."}"#.to_owned(),
        model: Some("acme/voice".to_owned()),
        lifetime_seconds: Some(10),
        max_cost: Some(Credits::from_nanos(5)),
        max_seconds: Some(60),
        allowed_origins: vec!["https://example.com".to_owned()],
        console_session: None,
    };
    let created = service.create(&caller, new.clone()).await;
    assert_eq!(created.expires_at, START.plus(Duration::from_secs(10)));
    service.clock.advance(Duration::from_secs(10) - MICRO);
    for _ in 0..3 {
        let found = service.authenticate(&created).await.unwrap();
        assert_eq!(found.id, created.id);
        assert_eq!(found.caller.account_id(), ACCOUNT);
        assert_eq!(found.caller.principal, Principal::Key(key));
        assert_eq!(found.caller.mode, KeyMode::Test);
        assert_eq!(found.caller.rights, caller.rights);
        assert_eq!(
            (found.session, found.model),
            (new.session.clone(), new.model.clone())
        );
        assert_eq!((found.budget.is_some(), found.max_seconds), (true, Some(60)));
        assert_eq!(found.allowed_origins, new.allowed_origins);
        assert_eq!(found.expires_at, created.expires_at);
    }
    service.clock.advance(MICRO);
    assert!(!service.works(&created).await);
    let plain = service.create(&caller, NewClientSecret::default()).await;
    assert_eq!(service.authenticate(&plain).await.unwrap().budget, None);
    service.clock.advance(Duration::from_secs(600) - MICRO);
    assert!(service.works(&plain).await);
    service.clock.advance(MICRO);
    assert!(!service.works(&plain).await);
}

/// The stored row has neither the secret nor the session in the clear.
#[tokio::test]
async fn stored_secrets_are_unreadable() {
    let service = Service::new(|_| {}).await;
    let (_, caller) = service.caller(KeyParams::plain("key")).await;
    let new = NewClientSecret {
        session: "instructions".to_owned(),
        ..NewClientSecret::default()
    };
    let created = service.create(&caller, new).await;
    let text = created.secret.reveal();
    let digest = Pepper::new(&[7; 32]).unwrap().digest(text);
    let mut prefix = [0; 16];
    prefix.copy_from_slice(&digest[..16]);
    let stored = service.storage.client_secrets.find(prefix, START).await;
    let stored = stored.unwrap().unwrap();
    assert_eq!(stored.digest, digest);
    assert!(!stored.session.windows(12).any(|bytes| bytes == b"instructions"));
    assert!(!format!("{created:?}").contains(&text[10..]));
}

/// A secret ends with its key, immediately and without the cache of keys.
#[tokio::test]
async fn secrets_end_with_their_key() {
    let service = Service::new(|_| {}).await;
    let expiry = START.plus(Duration::from_secs(300));
    let params = KeyParams {
        expires_at: Some(expiry),
        ..KeyParams::plain("expiring")
    };
    let (_, expiring) = service.caller(params).await;
    let (key, revoked) = service.caller(KeyParams::plain("revoked")).await;
    let (_, other) = service.caller(KeyParams::plain("other")).await;
    let [of_expiring, of_revoked, of_other] = [
        service.create(&expiring, NewClientSecret::default()).await,
        service.create(&revoked, NewClientSecret::default()).await,
        service.create(&other, NewClientSecret::default()).await,
    ];
    service.clock.advance(Duration::from_secs(300) - MICRO);
    assert!(service.works(&of_expiring).await);
    service.clock.advance(MICRO);
    assert!(!service.works(&of_expiring).await);
    assert!(service.works(&of_revoked).await);
    // Another node revokes the key; no notification arrives.
    let now = service.clock.now();
    service.storage.keys.revoke(key, now).await.unwrap();
    assert!(!service.works(&of_revoked).await);
    assert!(service.works(&of_other).await);
    service.set_state(AccountState::Suspended).await;
    assert!(!service.works(&of_other).await);
    service.set_state(AccountState::Active).await;
    assert!(service.works(&of_other).await);
    // A key of another account is not the principal.
    let principal = Principal::Key(key);
    let elsewhere = service.secrets.caller_of(AccountId::from_u128(2), principal);
    assert!(matches!(elsewhere.await, Err(KeyError::Invalid)));
}

/// A secret of a member ends with the membership, or with the permission to use the account.
#[tokio::test]
async fn secrets_end_with_their_member() {
    let service = Service::new(|_| {}).await;
    let members = &service.storage.members;
    let id = MemberId::from_u128(2);
    for (number, role) in [(1, MemberRole::Owner), (2, MemberRole::Member)] {
        let member = Member {
            id: MemberId::from_u128(number),
            account: ACCOUNT,
            person: None,
            email: format!("person-{number}@example.com"),
            role,
            created_at: START,
        };
        members.add(member).await.unwrap();
    }
    let account = service.storage.accounts.get(ACCOUNT).await.unwrap().unwrap();
    let caller = Caller::of_member(Arc::new(account), id);
    let created = service.create(&caller, NewClientSecret::default()).await;
    let found = service.authenticate(&created).await.unwrap().caller;
    assert_eq!(found.principal, Principal::Member(id));
    for (role, expected) in [
        (MemberRole::Viewer, false),
        (MemberRole::Billing, false),
        (MemberRole::Admin, true),
        (MemberRole::Owner, true),
        (MemberRole::Member, true),
    ] {
        members.set_role(ACCOUNT, id, role).await.unwrap();
        assert_eq!(service.works(&created).await, expected, "{role:?}");
    }
    service.set_state(AccountState::Suspended).await;
    assert!(!service.works(&created).await);
    service.set_state(AccountState::Active).await;
    assert!(service.works(&created).await);
    members.remove(ACCOUNT, id).await.unwrap();
    assert!(!service.works(&created).await);
}

/// A secret of the console ends with the session in which a member created it, with every way in
/// which that session ends, and not with other sessions of the person.
#[tokio::test]
async fn secrets_end_with_their_session() {
    let service = Service::new(|_| {}).await;
    for number in [1, 2] {
        let member = Member {
            id: MemberId::from_u128(number),
            account: ACCOUNT,
            person: None,
            email: format!("person-{number}@example.com"),
            role: MemberRole::Owner,
            created_at: START,
        };
        service.storage.members.add(member).await.unwrap();
    }
    let account = service.storage.accounts.get(ACCOUNT).await.unwrap().unwrap();
    let caller = Caller::of_member(Arc::new(account), MemberId::from_u128(1));
    let sign_ins = SignIns::new(service.storage.people.clone(), service.sessions.clone());
    let sign_in = async |member| {
        let target = LinkTarget::Member(MemberId::from_u128(member));
        let link = sign_ins.create_link(LinkPurpose::SignIn, target, IDLE);
        let (_, token) = link.await.unwrap();
        let visitor = Visitor {
            client: String::new(),
            address: String::new(),
            session: None,
        };
        let signed_in = sign_ins.redeem(token.reveal(), false, &visitor);
        signed_in.await.unwrap().session
    };
    let secret_of = async |session: SessionId| {
        let new = NewClientSecret {
            lifetime_seconds: Some(7200),
            console_session: Some(session),
            ..NewClientSecret::default()
        };
        service.create(&caller, new).await
    };
    let (ended, other, foreign) = (sign_in(1).await, sign_in(1).await, sign_in(2).await);
    let of_ended = secret_of(ended.id).await;
    let of_other = secret_of(other.id).await;
    let of_foreign = secret_of(foreign.id).await;
    assert!(service.works(&of_ended).await);
    assert!(!service.works(&of_foreign).await, "the session of another person");
    service.sessions.end(ended.owner, ended.id).await.unwrap();
    assert!(!service.works(&of_ended).await);
    assert!(service.works(&of_other).await);
    service.clock.advance(IDLE - MICRO);
    assert!(service.works(&of_other).await);
    service.clock.advance(MICRO);
    assert!(!service.works(&of_other).await, "the session was idle");
    // A key has no session.
    let new = NewClientSecret {
        console_session: Some(other.id),
        ..NewClientSecret::default()
    };
    let (_, key) = service.caller(KeyParams::plain("key")).await;
    let of_key = service.create(&key, new).await;
    assert!(!service.works(&of_key).await);
}

/// The account may have a thousand live secrets; expired ones free their places.
#[tokio::test]
async fn live_secrets_are_limited() {
    let service = Service::new(|_| {}).await;
    let (_, caller) = service.caller(KeyParams::plain("key")).await;
    let short = NewClientSecret {
        lifetime_seconds: Some(10),
        ..NewClientSecret::default()
    };
    service.create(&caller, short).await;
    for _ in 1..MAX_LIVE_SECRETS {
        service.create(&caller, NewClientSecret::default()).await;
    }
    let refused = async || {
        let refused = service.secrets.create(&caller, NewClientSecret::default());
        refused.await.unwrap_err().code
    };
    assert_eq!(refused().await, ErrorCode::RateLimitExceeded);
    service.clock.advance(Duration::from_secs(10));
    service.create(&caller, NewClientSecret::default()).await;
    assert_eq!(refused().await, ErrorCode::RateLimitExceeded);
}

/// All sessions share the maximum cost, also after the secret has expired, until the sweep deletes
/// it two hours later.
#[tokio::test]
async fn sessions_share_the_maximum_cost() {
    let service = Service::new(|_| {}).await;
    let (_, caller) = service.caller(KeyParams::plain("key")).await;
    let nanos = Credits::from_nanos;
    let new = NewClientSecret {
        max_cost: Some(nanos(100)),
        ..NewClientSecret::default()
    };
    let created = service.create(&caller, new).await;
    let budget = service.authenticate(&created).await.unwrap().budget.unwrap();
    let reserve = async |amount| service.secrets.reserve(budget, nanos(amount)).await.unwrap();
    assert!(reserve(80).await);
    assert!(!reserve(21).await);
    service
        .secrets
        .correct(budget, nanos(80), nanos(30))
        .await
        .unwrap();
    service.clock.advance(Duration::from_secs(7200));
    assert_eq!(service.secrets.sweep(9).await.unwrap(), 0);
    assert!(reserve(70).await);
    assert!(!reserve(1).await);
    service.clock.advance(Duration::from_secs(600));
    assert_eq!(service.secrets.sweep(9).await.unwrap(), 0);
    service.clock.advance(MICRO);
    assert_eq!(service.secrets.sweep(9).await.unwrap(), 1);
    assert!(!reserve(0).await);
    service
        .secrets
        .correct(budget, nanos(70), nanos(0))
        .await
        .unwrap();
}

/// A store that cannot be reached.
struct Unreachable;

fn unavailable<T>() -> Result<T> {
    Err(StorageError::new(StorageErrorKind::Unavailable, "unreachable"))
}

#[async_trait]
impl ClientSecretStore for Unreachable {
    async fn create(&self, _: ClientSecret, _: u32) -> Result<ClientSecretCreation> {
        unavailable()
    }

    async fn find(&self, _: [u8; 16], _: Timestamp) -> Result<Option<ClientSecret>> {
        unavailable()
    }

    async fn reserve(&self, _: AccountId, _: ClientSecretId, _: Credits) -> Result<bool> {
        unavailable()
    }

    async fn correct(&self, _: AccountId, _: ClientSecretId, _: Credits, _: Credits) -> Result<()> {
        unavailable()
    }

    async fn sweep(&self, _: Timestamp, _: u32) -> Result<u64> {
        unavailable()
    }
}

/// A malformed secret is refused without a lookup. A failed lookup is no invalid secret.
#[tokio::test]
async fn malformed_secrets_are_not_looked_up() {
    let service = Service::new(|storage| storage.client_secrets = Arc::new(Unreachable)).await;
    let well_formed = format!("ek_{}", "a".repeat(40));
    let longer = format!("{well_formed}a");
    for malformed in ["", "ek_", &well_formed[1..], &well_formed[..42], &longer] {
        let refused = service.secrets.authenticate(malformed).await.unwrap_err();
        assert!(matches!(refused, KeyError::Invalid), "{malformed}");
    }
    let failed = service.secrets.authenticate(&well_formed).await.unwrap_err();
    assert!(matches!(failed, KeyError::Storage(_)));
    let reachable = Service::new(|_| {}).await;
    let unknown = reachable.secrets.authenticate(&well_formed).await.unwrap_err();
    assert!(matches!(unknown, KeyError::Invalid));
}
