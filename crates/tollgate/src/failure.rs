//! How a command ends: its exit code, and what is said about it on stderr.

use std::process::ExitCode;

use serde_json::json;
use tollgate_server::ConfigError;
use tollgate_server::control::CommandError;
use tollgate_types::{Error, ErrorCode};

/// Exit codes, as `tollgate --help` documents them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Fine = 0,
    /// Not done.
    Failed = 1,
    /// The command line or the settings cannot be meant like this.
    Usage = 2,
    /// A check was carried out and found faults.
    Faults = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// A command that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// For programs: a code of the public API, or `usage`, `invalid_settings`, `failed`.
    pub code: String,
    /// What happened and what to do.
    pub message: String,
}

impl Failure {
    /// A failure of the command line itself.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            code: "usage".to_owned(),
            message: message.into(),
        }
    }

    /// A failure that has no code of its own.
    pub fn failed(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failed,
            code: "failed".to_owned(),
            message: message.into(),
        }
    }

    /// The same failure with advice that only the command knows.
    #[must_use]
    pub fn with_advice(mut self, advice: &str) -> Self {
        self.message = format!("{} {advice}", self.message);
        self
    }

    /// What is written on stderr: a sentence for people, one JSON object for programs.
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
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let code = error.code.as_str().to_owned();
        match cause {
            // What the public API says of its own faults helps nobody who sits at the machine: the cause does.
            Some(cause) if error.code == ErrorCode::InternalError => Self {
                exit,
                code,
                message: cause,
            },
            _ => Self {
                exit,
                code,
                message: CommandError::from(error).message,
            },
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<ConfigError>() {
            Ok(error) => error.into(),
            Err(error) => Self::failed(format!("{error:#}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_reach_the_operator_and_codes_reach_programs() {
        let internal = Failure::from(Error::internal("the disk is full"));
        assert_eq!(internal.exit, Exit::Failed);
        assert!(
            internal.message.starts_with("the disk is full"),
            "{}",
            internal.message
        );
        let invalid = Failure::from(Error::new(ErrorCode::InvalidParameter, "An amount is above 0."));
        assert_eq!(invalid.exit, Exit::Usage);
        let json: serde_json::Value = serde_json::from_str(&invalid.rendered(true)).unwrap();
        assert_eq!(json["error"]["code"], "invalid_parameter");
        assert_eq!(json["error"]["message"], "An amount is above 0.");
        assert_eq!(invalid.rendered(false), "error: An amount is above 0.");
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
