//! Passwords: requirements, hashing and verification with Argon2id.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use tokio::sync::Semaphore;
use tollgate_types::{Error, ErrorCode, Retry};

/// Minimum length of a password, in characters.
pub const MIN_PASSWORD_CHARS: usize = 12;
/// Maximum length of a password, in characters.
pub const MAX_PASSWORD_CHARS: usize = 128;

/// Memory of one computation, in KiB (OWASP Password Storage Cheat Sheet).
const MEMORY_KIB: u32 = 19 * 1024;
const ITERATIONS: u32 = 2;
/// Maximum number of computations that wait for a processor.
const MAX_WAITING: usize = 32;

/// Hash of a random password, with the parameters of all others. It is verified for people without
/// a password, so that their sign-in takes as long.
const UNMATCHED: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$t2zM9KJCabFJn9HDjEDZdA$KIi3/si7oz+MN4PggHLJVs91AG1abtosHo1z+XXFdZU";

/// Passwords of at least 12 characters among the 20,000 most common ones, in lower case, sorted.
/// Source: the list that Django 5.2 uses.
static COMMON: &str = include_str!("../../data/common-passwords.txt");

/// Hashes and verifies passwords. As many computations run simultaneously as there are processors.
pub struct Passwords {
    processors: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Default for Passwords {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            processors: Arc::new(Semaphore::new(processors)),
            waiting: AtomicUsize::new(0),
        }
    }
}

impl Passwords {
    /// Hashes a password, as a string in PHC format.
    pub(crate) async fn hash(&self, password: &str) -> Result<String, Error> {
        let password = password.to_owned();
        let hash = move || {
            let hash = argon2()?.hash_password(password.as_bytes());
            hash.map(|hash| hash.to_string()).map_err(cannot_hash)
        };
        self.compute(hash).await?
    }

    /// Whether a password matches a hash in PHC format. Without a hash, returns `false` after the
    /// same time.
    pub(crate) async fn verify(&self, password: &str, hash: Option<&str>) -> Result<bool, Error> {
        let (password, is_set) = (password.to_owned(), hash.is_some());
        let hash = hash.unwrap_or(UNMATCHED).to_owned();
        let matches = move || {
            let verified = argon2()?.verify_password(password.as_bytes(), hash.as_str());
            Ok::<_, Error>(verified.is_ok())
        };
        Ok(self.compute(matches).await?? && is_set)
    }

    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let waiting = Waiting::enter(&self.waiting)?;
        let permit = self
            .processors
            .clone()
            .acquire_owned()
            .await
            .map_err(Error::internal)?;
        drop(waiting);
        // The computation owns the permit, because it continues when its client disconnects.
        let work = move || {
            let done = work();
            drop(permit);
            done
        };
        tokio::task::spawn_blocking(work).await.map_err(Error::internal)
    }
}

/// A place in the queue for a processor.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Result<Self, Error> {
        let place = Self(count);
        if count.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            let message = "Too many sign-ins are in progress. Retry in a few seconds.";
            return Err(
                Error::new(ErrorCode::Overloaded, message).with_retry(Retry::After(Duration::from_secs(2)))
            );
        }
        Ok(place)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn argon2() -> Result<Argon2<'static>, Error> {
    let params = Params::new(MEMORY_KIB, ITERATIONS, 1, None).map_err(cannot_hash)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn cannot_hash(error: impl std::fmt::Display) -> Error {
    Error::internal(error.to_string())
}

/// Checks the requirements of a new password: length, not common, and not the e-mail address.
pub(crate) fn check_new(password: &str, email: Option<&str>) -> Result<(), Error> {
    let chars = password.chars().count();
    let lower = password.to_lowercase();
    let problem = if !(MIN_PASSWORD_CHARS..=MAX_PASSWORD_CHARS).contains(&chars) {
        "'password' must have 12 to 128 characters."
    } else if is_common(&lower) {
        "This password is one of the most common ones. Choose another password."
    } else if email.is_some_and(|email| lower == email) {
        "The password must differ from the e-mail address."
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorCode::InvalidParameter, problem).with_param("password"))
}

/// Whether a password in lower case is in the list of common ones, or repeats at most three
/// characters in turn.
fn is_common(password: &str) -> bool {
    let is_repeated = |period: usize| {
        let chars: Vec<char> = password.chars().collect();
        chars
            .iter()
            .skip(period)
            .eq(chars.iter().take(chars.len() - period))
    };
    COMMON.lines().any(|common| common == password) || (1..=3).any(is_repeated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_passwords_meet_the_requirements() {
        let longest = "a-b c_".repeat(21) + "éß";
        assert_eq!(longest.chars().count(), 128);
        for password in ["correct horse", "zwölf Zeichen", "jo@example.org", &longest] {
            check_new(password, Some("jo@example.com")).unwrap();
        }
        let too_long = format!("{longest}x");
        for password in [
            "",
            "elevenchars",
            "éééééééééé",
            &too_long,
            "1q2w3e4r5t6y",
            "Qwerty123456",
            "aaaaaaaaaaaaaa",
            "abcabcabcabca",
            "Jo@Example.com",
        ] {
            let error = check_new(password, Some("jo@example.com")).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidParameter, "{password}");
            assert_eq!(error.param.as_deref(), Some("password"), "{password}");
        }
    }

    #[tokio::test]
    async fn a_hash_matches_its_password_only() {
        let passwords = Passwords::default();
        let hash = passwords.hash("correct horse").await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(UNMATCHED.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert!(passwords.verify("correct horse", Some(&hash)).await.unwrap());
        assert!(!passwords.verify("correct horses", Some(&hash)).await.unwrap());
        assert!(!passwords.verify("correct horse", None).await.unwrap());
        assert!(
            !passwords
                .verify("correct horse", Some("not a hash"))
                .await
                .unwrap()
        );
    }

    #[tokio::test]
    async fn a_full_queue_refuses_further_computations() {
        let passwords = Passwords::default();
        passwords.waiting.store(MAX_WAITING - 1, Ordering::Relaxed);
        passwords.verify("correct horse", None).await.unwrap();
        passwords.waiting.store(MAX_WAITING, Ordering::Relaxed);
        let error = passwords.verify("correct horse", None).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Overloaded);
        assert_eq!(passwords.waiting.load(Ordering::Relaxed), MAX_WAITING);
    }
}
