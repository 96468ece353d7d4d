//! Cases for [`crate::LabelPriorStore`].

use super::Factory;
use crate::StoredLabelPrior;

fn prior(provider: &str, model: &str, prior: &str) -> StoredLabelPrior {
    StoredLabelPrior {
        provider: provider.to_owned(),
        model: model.to_owned(),
        prior: prior.to_owned(),
    }
}

/// Checks that the last saved prior of each provider and model is returned, even after reopening.
pub async fn last_save_wins(factory: Factory) {
    let storage = factory.open().await;
    assert_eq!(storage.label_priors.all().await.unwrap(), []);
    for saved in [
        prior("b", "m", "{}"),
        prior("a", "m/é", "{\"2\":1}"),
        prior("a", "m", "old"),
        prior("a", "m", "new"),
    ] {
        storage.label_priors.save(saved).await.unwrap();
    }
    storage.engine.close().await.unwrap();
    let found = factory.open().await.label_priors.all().await.unwrap();
    let expected = [
        prior("a", "m", "new"),
        prior("a", "m/é", "{\"2\":1}"),
        prior("b", "m", "{}"),
    ];
    assert_eq!(found, expected);
}
