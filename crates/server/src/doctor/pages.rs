//! Check of the process that extracts the text of web pages.

use tollgate_types::{Clock, Date};

use super::Finding;
use crate::config::Config;
use crate::pages;

const SUBJECT: &str = "web pages";

/// Checks that the process starts and extracts a page. `None` if this program has no extraction.
pub async fn check(config: &Config, clock: &dyn Clock) -> Option<Finding> {
    let today = Date::of(clock.now())?;
    Some(match pages::probe(config, today).await? {
        Ok(duration) => {
            let detail = format!(
                "the extraction process read a page in {} ms",
                duration.as_millis()
            );
            Finding::fine(SUBJECT, detail)
        }
        Err(error) => Finding::fault(
            SUBJECT,
            format!("the extraction process cannot read a page: a probe {error}"),
            "permit this user to start processes with 512 MiB of address space; `tollgate extract` \
             shows errors of its start",
        ),
    })
}
