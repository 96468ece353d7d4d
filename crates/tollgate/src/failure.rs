//! Exit codes of commands, and their error messages on stderr.

use std::process::ExitCode;

use serde_json::json;
use tollgate_server::{ConfigError, cause};
use tollgate_types::{Error, ErrorCode};

/// Exit codes, as documented in `tollgate --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded.
    Fine = 0,
    /// The command failed.
    Failed = 1,
    /// The command line, a parameter or the settings are invalid.
    Usage = 2,
    /// A check ran and found problems.
    Faults = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Failure of a command, with its exit code and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Exit code of the process.
    pub exit: Exit,
    /// Machine-readable code: an error code of the public API, or `usage`, `invalid_settings`,
    /// `failed`.
    pub code: String,
    /// Description of the error, followed by advice.
    pub message: String,
}

impl Failure {
    /// Returns a failure for an invalid command line, with exit code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            code: "usage".to_owned(),
            message: message.into(),
        }
    }

    /// Returns a failure with the generic code `failed` and exit code 1.
    pub fn failed(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failed,
            code: "failed".to_owned(),
            message: message.into(),
        }
    }

    /// Appends advice to the message.
    #[must_use]
    pub fn with_advice(mut self, advice: &str) -> Self {
        self.message = format!("{} {advice}", self.message);
        self
    }

    /// Formats the failure for stderr: a line of text, or one JSON object if `json` is set.
    pub fn rendered(&self, json: bool) -> String {
        if json {
            json!({"error": {"code": self.code, "message": self.message}}).to_string()
        } else {
            format!("error: {}", self.message)
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self {
            exit: Exit::Usage,
            code: "invalid_settings".to_owned(),
            message: error.to_string(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match error.code {
            ErrorCode::InvalidParameter => Exit::Usage,
            _ => Exit::Failed,
        };
        Self {
            exit,
            code: error.code.as_str().to_owned(),
            message: error.operator_message(),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<ConfigError>() {
            Ok(error) => error.into(),
            Err(error) => Self::failed(cause::chain(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_operations::CommandError;

    use super::*;

    #[test]
    fn causes_reach_the_operator_and_codes_reach_programs() {
        let internal = Failure::from(Error::internal("the disk is full"));
        assert_eq!(internal.exit, Exit::Failed);
        assert_eq!(internal.rendered(false), "error: the disk is full");
        // The result is the same for an error that a running server sent over its socket.
        let answered = CommandError::from(Error::internal("the disk is full"));
        assert_eq!(Failure::from(Error::from(answered)), internal);
        let invalid = Failure::from(Error::new(
            ErrorCode::InvalidParameter,
            "'amount' must be above 0.",
        ));
        assert_eq!(invalid.exit, Exit::Usage);
        let json: serde_json::Value = serde_json::from_str(&invalid.rendered(true)).unwrap();
        assert_eq!(json["error"]["code"], "invalid_parameter");
        assert_eq!(json["error"]["message"], "'amount' must be above 0.");
        assert_eq!(invalid.rendered(false), "error: 'amount' must be above 0.");
    }

    #[test]
    fn bad_settings_are_usage_even_when_they_show_late() {
        let late = anyhow::Error::new(ConfigError::new("models.\"a/b\"", "has no price"));
        let failure = Failure::from(late);
        assert_eq!(
            (failure.exit, failure.code.as_str()),
            (Exit::Usage, "invalid_settings")
        );
        assert_eq!(failure.message, "models.\"a/b\": has no price");
    }
}
