//! Commands as the command line sends them to the server that owns the database: JSON with the name
//! of the command and its parameters.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_types::{Error, ErrorCode};

use crate::Operation;

/// A command in transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// [`Operation::NAME`] of the command.
    pub command: String,
    /// The command as JSON.
    pub parameters: Value,
}

impl Request {
    /// Encodes a command.
    pub fn of<C: Operation>(command: &C) -> Result<Self, Error> {
        Ok(Self {
            command: C::NAME.to_owned(),
            parameters: serde_json::to_value(command).map_err(Error::internal)?,
        })
    }
}

/// An error reply to a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandError {
    /// Error code, as in the public API.
    pub code: String,
    /// Message for operators, with the problem and its fix.
    pub message: String,
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        if error.code == ErrorCode::InternalError {
            // Clients do not receive the source location of an internal error; the log contains it.
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::error!(cause, "command failed");
        }
        Self {
            code: error.code.as_str().to_owned(),
            message: error.operator_message(),
        }
    }
}

impl From<CommandError> for Error {
    fn from(error: CommandError) -> Self {
        let code = ErrorCode::parse(&error.code).unwrap_or(ErrorCode::InternalError);
        Error::new(code, error.message)
    }
}

/// Exports the commands of each module, and executes commands in transfer by their names.
macro_rules! commands {
    ($($module:ident: [$($command:ident),* $(,)?]),* $(,)?) => {
        $(pub use $module::{$($command),*};)*

        impl Operations {
            /// Executes a command in transfer and returns the reply as JSON.
            pub async fn execute_request(
                &self,
                actor: &Actor,
                request: wire::Request,
            ) -> Result<serde_json::Value, tollgate_types::Error> {
                match &*request.command {
                    $($(name if name == $command::NAME => {
                        let command = wire::decode::<$command>(request.parameters)?;
                        // Boxed, so that the future is not as large as that of the largest command.
                        wire::encode(&Box::pin(self.execute(actor, command)).await?)
                    })*)*
                    unknown => Err(wire::unknown_command(&format!("unknown command '{unknown}'"))),
                }
            }
        }

        #[cfg(test)]
        const NAMES: &[&str] = &[$($($command::NAME),*),*];
    };
}

/// Decodes the reply to a command. An error omits the reply, which may contain a secret.
pub fn reply_to<C: Operation>(reply: Value) -> Result<C::Reply, Error> {
    serde_json::from_value(reply).map_err(|_| other_version())
}

/// Returns the error for a reply that this version cannot read.
pub fn other_version() -> Error {
    Error::internal(
        "The server sent an unexpected reply. Use the `tollgate` program of the server's version.",
    )
}

pub(crate) fn decode<C: Operation>(parameters: Value) -> Result<C, Error> {
    serde_json::from_value(parameters).map_err(|error| unknown_command(&error.to_string()))
}

pub(crate) fn encode(reply: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(reply).map_err(Error::internal)
}

/// Returns the error for a command that this version does not have.
pub fn unknown_command(cause: &str) -> Error {
    let message = format!(
        "The server does not support this command or its parameters. The server may run another version than the command line: {cause}"
    );
    Error::new(ErrorCode::InvalidParameter, message)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::NAMES;

    #[test]
    fn names_are_unique() {
        let distinct: BTreeSet<&str> = NAMES.iter().copied().collect();
        assert_eq!(distinct.len(), NAMES.len());
    }
}
