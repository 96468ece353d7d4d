use tollgate_estimate::{EstimateOptions, Estimator, HeatReading};

use super::*;

/// Keeps in memory; fails while it is told to.
#[derive(Default)]
struct Store {
    kept: Mutex<HashMap<(String, String), String>>,
    is_away: Mutex<bool>,
}

#[async_trait::async_trait]
impl LabelPriorStore for Store {
    async fn all(&self) -> Result<Vec<StoredLabelPrior>> {
        let kept = self.kept.lock().unwrap();
        Ok(kept
            .iter()
            .map(|((provider, model), prior)| StoredLabelPrior {
                provider: provider.clone(),
                model: model.clone(),
                prior: prior.clone(),
            })
            .collect())
    }

    async fn save(&self, new: StoredLabelPrior) -> Result<()> {
        if *self.is_away.lock().unwrap() {
            return Err(StorageError::new(StorageErrorKind::Unavailable, "away"));
        }
        let mut kept = self.kept.lock().unwrap();
        kept.insert((new.provider, new.model), new.prior);
        Ok(())
    }
}

fn key(model: &str) -> PriorKey {
    ("p".into(), model.into())
}

/// A question of two options of a model that prefers what is first.
fn lesson() -> Lesson {
    let how = EstimateOptions {
        labels_at_once: 2,
        permutations: None,
        fast: false,
        seed: 0,
        prior: None,
    };
    let mut estimator = Estimator::new(2, false, &how);
    let reading = || {
        Some(HeatReading {
            logprobs: vec![Some(0.8_f64.ln()), Some(0.2_f64.ln())],
            rest: None,
        })
    };
    estimator.tell(estimator.asks().iter().map(|_| reading()).collect());
    estimator.finish().unwrap().lesson.unwrap()
}

#[tokio::test]
async fn what_was_learned_is_there_after_a_restart() {
    let (store, before, after) = (Store::default(), Priors::default(), Priors::default());
    for _ in 0..9 {
        before.learn(key("m"), &lesson());
    }
    before.learn(key("n"), &lesson());
    *store.is_away.lock().unwrap() = true;
    assert!(before.keep(&store).await.is_err());
    *store.is_away.lock().unwrap() = false;
    before.keep(&store).await.unwrap();
    let garbage = ("p".to_owned(), "garbage".to_owned());
    store.kept.lock().unwrap().insert(garbage, "{".to_owned());

    after.recall(&store).await.unwrap();
    for (model, samples) in [("m", 9), ("n", 1)] {
        assert_eq!(after.of(&key(model)), before.of(&key(model)));
        assert_eq!(after.of(&key(model)).unwrap().samples(2), samples);
    }
    assert!(after.of(&key("m")).unwrap().preference(2).unwrap()[0] > 0.5);
    assert!(after.of(&key("garbage")).is_none());
}

#[tokio::test]
async fn only_what_is_new_is_written() {
    let (store, priors) = (Store::default(), Priors::default());
    priors.learn(key("m"), &lesson());
    priors.keep(&store).await.unwrap();
    store.kept.lock().unwrap().clear();
    priors.keep(&store).await.unwrap();
    assert!(store.kept.lock().unwrap().is_empty());
    priors.learn(key("m"), &lesson());
    priors.keep(&store).await.unwrap();
    assert_eq!(store.kept.lock().unwrap().len(), 1);
}
