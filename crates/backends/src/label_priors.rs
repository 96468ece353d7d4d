//! SQL of the models' label priors that SQLite and PostgreSQL share.

pub(crate) const ALL: &str = "SELECT provider, model, prior FROM label_prior ORDER BY provider, model";
pub(crate) const SAVE: &str = "INSERT INTO label_prior (provider, model, prior) VALUES ($1, $2, $3) \
    ON CONFLICT (provider, model) DO UPDATE SET prior = excluded.prior";

/// Binds a label prior to [`SAVE`], for any engine.
macro_rules! bind_label_prior {
    ($prior:expr) => {{
        let prior: tollgate_storage::StoredLabelPrior = $prior;
        sqlx::query($crate::label_priors::SAVE)
            .bind(prior.provider)
            .bind(prior.model)
            .bind(prior.prior)
    }};
}

/// Parses a label prior from a row of any engine.
macro_rules! label_prior_from {
    ($row:expr) => {{
        let column = |name: &str| {
            let read: std::result::Result<String, sqlx::Error> = $row.try_get(name);
            read.map_err(|error| $crate::rows::corrupt(error.to_string()))
        };
        Ok(tollgate_storage::StoredLabelPrior {
            provider: column("provider")?,
            model: column("model")?,
            prior: column("prior")?,
        })
    }};
}

pub(crate) use {bind_label_prior, label_prior_from};

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[ALL, SAVE];
