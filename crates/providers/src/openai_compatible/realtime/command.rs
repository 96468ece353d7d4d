//! Event ids of commands, to which the server's errors refer.

use tollgate_formats::openai_realtime::UpstreamCommand;

/// Kind of a command, which its event id states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::openai_compatible) enum CommandKind {
    Session,
    Append,
    Commit,
    Clear,
    Item,
    Delete,
    Truncate,
    Response,
    Cancel,
}

impl CommandKind {
    const ALL: [CommandKind; 9] = [
        CommandKind::Session,
        CommandKind::Append,
        CommandKind::Commit,
        CommandKind::Clear,
        CommandKind::Item,
        CommandKind::Delete,
        CommandKind::Truncate,
        CommandKind::Response,
        CommandKind::Cancel,
    ];

    pub(in crate::openai_compatible) const fn of(command: &UpstreamCommand<'_>) -> Self {
        match command {
            UpstreamCommand::UpdateSession { .. } | UpstreamCommand::UpdateTranscription { .. } => {
                CommandKind::Session
            }
            UpstreamCommand::AppendAudio { .. } => CommandKind::Append,
            UpstreamCommand::CommitAudio => CommandKind::Commit,
            UpstreamCommand::ClearAudio => CommandKind::Clear,
            UpstreamCommand::CreateItem { .. } => CommandKind::Item,
            UpstreamCommand::DeleteItem { .. } => CommandKind::Delete,
            UpstreamCommand::TruncateItem { .. } => CommandKind::Truncate,
            UpstreamCommand::CreateResponse { .. } => CommandKind::Response,
            UpstreamCommand::CancelResponse { .. } => CommandKind::Cancel,
        }
    }

    pub(in crate::openai_compatible) const fn prefix(self) -> &'static str {
        match self {
            CommandKind::Session => "session_",
            CommandKind::Append => "append_",
            CommandKind::Commit => "commit_",
            CommandKind::Clear => "clear_",
            CommandKind::Item => "item_",
            CommandKind::Delete => "delete_",
            CommandKind::Truncate => "truncate_",
            CommandKind::Response => "response_",
            CommandKind::Cancel => "cancel_",
        }
    }

    /// Parses the event id of a command; `None` if the link did not create it.
    pub(in crate::openai_compatible) fn parse(event_id: &str) -> Option<(Self, u64)> {
        let mut kinds = CommandKind::ALL.into_iter();
        kinds.find_map(|kind| Some((kind, event_id.strip_prefix(kind.prefix())?.parse().ok()?)))
    }
}
