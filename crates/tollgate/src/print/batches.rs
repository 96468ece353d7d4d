//! Tables and details of batches.

use tollgate_operations::batches::BatchView;

use super::tables::{age, aligned, format_account, table};

/// Width of a progress bar, in characters.
const BAR: u64 = 20;

/// Formats batches, one line each, with progress bars if `has_bars` is set (terminals).
pub fn batches(batches: &[BatchView], has_bars: bool) -> String {
    let row = |batch: &BatchView| {
        [
            batch.id.clone(),
            format_account(batch.account, batch.account_name.as_deref()),
            batch.state.clone(),
            progress(batch, has_bars),
            batch.total.to_string(),
            batch.completed.to_string(),
            batch.failed.to_string(),
            age(batch.age_seconds),
            batch.model.clone(),
        ]
    };
    table(
        [
            "ID", "ACCOUNT", "STATE", "PROGRESS", "REQUESTS", "DONE", "FAILED", "AGE", "MODEL",
        ],
        batches.iter().map(row),
    )
}

/// Formats one batch, one line per fact.
pub fn batch(batch: &BatchView, has_bars: bool) -> String {
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let cost = batch.cost.map(|cost| cost.to_string());
    let facts = [
        ("id", batch.id.clone()),
        (
            "account",
            format_account(batch.account, batch.account_name.as_deref()),
        ),
        ("state", batch.state.clone()),
        ("progress", progress(batch, has_bars)),
        ("requests", batch.total.to_string()),
        ("done", batch.completed.to_string()),
        ("failed", batch.failed.to_string()),
        ("endpoint", batch.endpoint.clone()),
        ("model", batch.model.clone()),
        ("tokens", batch.tokens.to_string()),
        ("held", batch.held.to_string()),
        ("cost", or_none(&cost)),
        ("input file", batch.input_file.clone()),
        ("output file", or_none(&batch.output_file)),
        ("error file", or_none(&batch.error_file)),
        ("failure", or_none(&batch.failure)),
        ("created", batch.created_at.clone()),
        ("started", or_none(&batch.started_at)),
        ("ended", or_none(&batch.ended_at)),
        ("expires", batch.expires_at.clone()),
    ];
    aligned(&facts.map(|(name, fact)| [name.to_owned(), fact]))
}

/// Formats the share of completed and failed requests of a batch.
fn progress(batch: &BatchView, has_bar: bool) -> String {
    let ended = batch.completed.saturating_add(batch.failed).min(batch.total);
    let of = |whole: u64| (ended * whole).checked_div(batch.total).unwrap_or_default();
    let percent = format!("{:>3} %", of(100));
    if !has_bar {
        return percent;
    }
    let letters = |letter: &str, count: u64| letter.repeat(usize::try_from(count).unwrap_or_default());
    let done = of(BAR);
    format!("[{}{}] {percent}", letters("#", done), letters(".", BAR - done))
}

#[cfg(test)]
mod tests {
    use tollgate_types::{AccountId, Credits};

    use super::*;

    fn view(total: u64, completed: u64, failed: u64) -> BatchView {
        BatchView {
            id: "batch_1".to_owned(),
            account: AccountId::from_u128(1),
            account_name: None,
            state: "in_progress".to_owned(),
            endpoint: "/v1/embeddings".to_owned(),
            model: "acme/vectors".to_owned(),
            total,
            completed,
            failed,
            tokens: 1,
            held: Credits::ZERO,
            cost: None,
            input_file: "file-1".to_owned(),
            output_file: None,
            error_file: None,
            failure: None,
            created_at: String::new(),
            started_at: None,
            ended_at: None,
            expires_at: String::new(),
            age_seconds: 0,
        }
    }

    #[test]
    fn bars_are_as_long_as_what_has_ended() {
        for (batch, bar, percent) in [
            (view(0, 0, 0), "....................", "  0 %"),
            (view(200, 0, 0), "....................", "  0 %"),
            (view(200, 99, 0), "#########...........", " 49 %"),
            (view(200, 50, 50), "##########..........", " 50 %"),
            (view(200, 199, 0), "###################.", " 99 %"),
            (view(200, 200, 0), "####################", "100 %"),
        ] {
            assert_eq!(progress(&batch, true), format!("[{bar}] {percent}"));
            assert_eq!(progress(&batch, false), percent);
        }
    }
}
