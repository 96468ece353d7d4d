//! Sums usage rows by hour, for the usage series of the console.

use tollgate_storage::UsageHourStore;
use tollgate_types::Clock;

/// Number of accounts that one call of the storage lists.
const BATCH: u32 = 500;

/// Sums the hours of every account that are over and not summed yet; returns the number of accounts
/// with such hours. Several nodes may call this concurrently. A failure is logged, and the next
/// pass tries again.
pub async fn sum_usage_hours(hours: &dyn UsageHourStore, clock: &dyn Clock) -> u64 {
    let (mut count, mut after) = (0, None);
    let now = clock.now();
    loop {
        let accounts = match hours.accounts_behind(now, after, BATCH).await {
            Ok(accounts) => accounts,
            Err(error) => {
                tracing::warn!(%error, "cannot list accounts whose usage is not summed");
                return count;
            }
        };
        let Some(last) = accounts.last() else { return count };
        after = Some(*last);
        for account in accounts {
            count += 1;
            loop {
                match hours.advance(account, now).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        tracing::warn!(%error, account.id = %account, "cannot sum the usage of an account");
                        break;
                    }
                }
            }
        }
    }
}
