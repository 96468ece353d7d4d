use tollgate_probability::{EstimateOptions, Estimator, RoundReading};

use super::*;

/// In-memory store, whose writes fail while `is_unavailable` is set.
#[derive(Default)]
struct Store {
    stored: Mutex<HashMap<(String, String), String>>,
    is_unavailable: Mutex<bool>,
}

#[async_trait::async_trait]
impl LabelPriorStore for Store {
    async fn all(&self) -> Result<Vec<StoredLabelPrior>> {
        let stored = self.stored.lock().unwrap();
        Ok(stored
            .iter()
            .map(|((provider, model), prior)| StoredLabelPrior {
                provider: provider.clone(),
                model: model.clone(),
                prior: prior.clone(),
            })
            .collect())
    }

    async fn save(&self, new: StoredLabelPrior) -> Result<()> {
        if *self.is_unavailable.lock().unwrap() {
            return Err(StorageError::new(StorageErrorKind::Unavailable, "away"));
        }
        let mut stored = self.stored.lock().unwrap();
        stored.insert((new.provider, new.model), new.prior);
        Ok(())
    }
}

fn key(model: &str) -> PriorKey {
    ("p".into(), model.into())
}

/// Returns the observation of a question with two options, by a model that prefers the first one.
fn observation() -> PriorObservation {
    let options = EstimateOptions {
        max_labels: 2,
        permutations: None,
        fast: false,
        seed: 0,
        prior: None,
    };
    let mut estimator = Estimator::new(2, false, &options);
    let reading = || {
        Some(RoundReading {
            logprobs: vec![Some(0.8_f64.ln()), Some(0.2_f64.ln())],
            rest: None,
        })
    };
    estimator.record(estimator.pending().iter().map(|_| reading()).collect());
    estimator.finish().unwrap().observation.unwrap()
}

#[tokio::test]
async fn label_priors_survive_a_restart() {
    let (store, before, after) = (Store::default(), Priors::default(), Priors::default());
    for _ in 0..9 {
        before.learn(key("m"), &observation());
    }
    before.learn(key("n"), &observation());
    *store.is_unavailable.lock().unwrap() = true;
    assert!(before.save(&store).await.is_err());
    *store.is_unavailable.lock().unwrap() = false;
    before.save(&store).await.unwrap();
    let garbage = ("p".to_owned(), "garbage".to_owned());
    store.stored.lock().unwrap().insert(garbage, "{".to_owned());

    after.load(&store).await.unwrap();
    for (model, samples) in [("m", 9), ("n", 1)] {
        assert_eq!(after.of(&key(model)), before.of(&key(model)));
        assert_eq!(after.of(&key(model)).unwrap().samples(2), samples);
    }
    assert!(after.of(&key("m")).unwrap().preference(2).unwrap()[0] > 0.5);
    assert!(after.of(&key("garbage")).is_none());
}

#[tokio::test]
async fn only_new_priors_are_written() {
    let (store, priors) = (Store::default(), Priors::default());
    priors.learn(key("m"), &observation());
    priors.save(&store).await.unwrap();
    store.stored.lock().unwrap().clear();
    priors.save(&store).await.unwrap();
    assert!(store.stored.lock().unwrap().is_empty());
    priors.learn(key("m"), &observation());
    priors.save(&store).await.unwrap();
    assert_eq!(store.stored.lock().unwrap().len(), 1);
}
