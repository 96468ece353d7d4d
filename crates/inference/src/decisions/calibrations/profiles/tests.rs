use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tollgate_storage::{CalibrationFilter, NewCalibration, Result as Stored};
use tollgate_types::Timestamp;
use tollgate_types::clock::ManualClock;

use super::*;

const ACCOUNT: AccountId = AccountId::from_u128(1);
const NOW: Timestamp = Timestamp::from_micros(1_795_181_400_000_000);

/// A store with at most one calibration that counts its lookups.
#[derive(Default)]
struct Store {
    one: Mutex<Option<Calibration>>,
    lookups: AtomicUsize,
}

impl Store {
    fn look(&self) -> Option<Calibration> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        self.one.lock().unwrap().clone()
    }
}

#[async_trait]
impl CalibrationStore for Store {
    async fn insert(&self, _: NewCalibration, _: u32) -> Stored<Option<Calibration>> {
        Ok(None)
    }

    async fn get(&self, account: AccountId, id: CalibrationId) -> Stored<Option<Calibration>> {
        let found = self.look();
        Ok(found.filter(|one| one.details.account == account && one.details.id == id))
    }

    async fn default_of(&self, account: AccountId, model: &str) -> Stored<Option<Calibration>> {
        let found = self.look();
        Ok(found.filter(|one| one.details.account == account && one.details.model == model))
    }

    async fn list(&self, _: AccountId, _: CalibrationFilter, _: u32) -> Stored<Vec<Calibration>> {
        Ok(Vec::new())
    }

    async fn choose(&self, _: AccountId, _: CalibrationId, _: bool) -> Stored<Option<Calibration>> {
        Ok(None)
    }

    async fn delete(&self, _: AccountId, _: CalibrationId) -> Stored<bool> {
        Ok(false)
    }
}

fn one() -> Calibration {
    Calibration {
        details: NewCalibration {
            id: CalibrationId::from_u128(7),
            account: ACCOUNT,
            model: "acme/decider".to_owned(),
            name: None,
            profile: r#"{"temperatures":[]}"#.to_owned(),
            examples: 30,
            summary: "{}".to_owned(),
            created_at: NOW,
        },
        version: 1,
        is_default: true,
    }
}

#[tokio::test]
async fn cached_profiles_expire_and_are_dropped_on_local_changes() {
    let (store, clock) = (Arc::new(Store::default()), Arc::new(ManualClock::at(NOW)));
    let calibrations = Calibrations::new(store.clone(), clock.clone());
    let model: Arc<str> = Arc::from("acme/decider");
    let lookups = || store.lookups.load(Ordering::SeqCst);
    let has = async || {
        let found = calibrations.profile(ACCOUNT, &model, &CalibrationChoice::Newest);
        found.await.unwrap().is_some()
    };
    assert!(!has().await);
    assert!(!has().await);
    assert_eq!(lookups(), 1);
    *store.one.lock().unwrap() = Some(one());
    assert!(!has().await, "another node wrote it, and no notification arrived");
    clock.advance(Duration::from_micros(CACHE_TTL_MICROS));
    assert!(has().await);
    assert!(has().await);
    assert_eq!(lookups(), 2);
    *store.one.lock().unwrap() = None;
    calibrations.changed(AccountId::from_u128(2));
    assert!(has().await);
    calibrations.changed(ACCOUNT);
    assert!(!has().await);
    assert_eq!(lookups(), 3);
}

#[tokio::test]
async fn profiles_belong_to_one_account_and_model() {
    let store = Arc::new(Store::default());
    *store.one.lock().unwrap() = Some(one());
    let clock = Arc::new(ManualClock::at(NOW));
    let calibrations = Calibrations::new(store.clone(), clock);
    let named = CalibrationChoice::Profile(one().details.id.to_string());
    let unknown = CalibrationChoice::Profile("cal_1".to_owned());
    let other = AccountId::from_u128(2);
    for (account, model, choice, expected) in [
        (ACCOUNT, "acme/decider", &named, Ok(true)),
        (ACCOUNT, "acme/decider", &CalibrationChoice::Newest, Ok(true)),
        (ACCOUNT, "acme/decider", &CalibrationChoice::None, Ok(false)),
        (ACCOUNT, "acme/other", &CalibrationChoice::Newest, Ok(false)),
        (ACCOUNT, "acme/other", &named, Err(ErrorCode::InvalidParameter)),
        (ACCOUNT, "acme/decider", &unknown, Err(ErrorCode::NotFound)),
        (other, "acme/decider", &named, Err(ErrorCode::NotFound)),
        (other, "acme/decider", &CalibrationChoice::Newest, Ok(false)),
    ] {
        let found = calibrations.profile(account, &Arc::from(model), choice).await;
        let found = found.map(|found| found.is_some()).map_err(|error| {
            assert_eq!(error.param.as_deref(), Some("options.calibration"));
            error.code
        });
        assert_eq!(found, expected, "{account} {model} {choice:?}");
    }
    let before = store.lookups.load(Ordering::SeqCst);
    calibrations
        .profile(ACCOUNT, &Arc::from("acme/decider"), &CalibrationChoice::None)
        .await
        .unwrap();
    assert_eq!(store.lookups.load(Ordering::SeqCst), before);
}
