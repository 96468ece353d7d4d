//! Saves, reads and deletes chats. Titles, settings and turns are encrypted in storage.

use std::sync::Arc;

use serde_json::Value;
use tollgate_accounts::Vault;
use tollgate_storage::{Account, Chat, ChatSave, ChatSaveOutcome, ChatStore, StorageErrorKind};
use tollgate_types::{AccountId, ChatId, Clock, Error, ErrorCode, MemberId};

use super::wire::{
    ChatBody, ChatList, ChatPut, Conversation, ConversationList, MAX_BYTES, MAX_MODELS, MAX_TURNS, Message,
    WholeChat, WholeConversation, invalid, stored,
};

/// Number of chats that a search or an export reads at a time.
const BATCH: u32 = 100;

/// Service for the saved chats of accounts.
#[derive(Clone)]
pub struct SavedChats {
    pub store: Arc<dyn ChatStore>,
    pub vault: Vault,
    pub clock: Arc<dyn Clock>,
    /// Default maximum number of saved chats of an account.
    pub default_limit: u32,
}

/// The member who changes chats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Editor {
    pub(super) member: MemberId,
    /// Whether the member may change the chats of other members.
    pub(super) is_manager: bool,
}

impl SavedChats {
    /// Returns the maximum number of saved chats of an account.
    pub(crate) fn limit(&self, account: &Account) -> u32 {
        account.limits.chats.unwrap_or(self.default_limit)
    }

    fn seal(&self, account: AccountId, id: ChatId, text: &[u8]) -> Result<Vec<u8>, Error> {
        let sealed = self.vault.seal(account, id.as_u128(), text);
        sealed.map_err(|error| Error::internal(error.to_string()))
    }

    fn open(&self, chat: &Chat, sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let opened = self.vault.open(chat.account, chat.id.as_u128(), sealed);
        opened.ok_or_else(|| Error::internal(format!("cannot decrypt {}", chat.id)))
    }

    fn title(&self, chat: &Chat) -> Result<String, Error> {
        let title = self.open(chat, &chat.title)?;
        String::from_utf8(title).map_err(Error::internal)
    }

    fn json(&self, chat: &Chat, sealed: &[u8]) -> Result<Value, Error> {
        serde_json::from_slice(&self.open(chat, sealed)?).map_err(Error::internal)
    }

    fn body(&self, chat: &Chat) -> Result<ChatBody, Error> {
        Ok(ChatBody::of(chat, self.title(chat)?))
    }

    /// Returns a chat that the editor may change.
    async fn editable(&self, account: AccountId, id: ChatId, editor: Editor) -> Result<Chat, Error> {
        let chat = self.store.get(account, id).await.map_err(Error::from)?;
        let chat = chat.ok_or_else(no_such_chat)?;
        check_editor(&chat, editor)?;
        Ok(chat)
    }

    /// Saves a chat.
    pub(super) async fn save(
        &self,
        account: &Account,
        id: ChatId,
        editor: Editor,
        put: ChatPut,
    ) -> Result<ChatBody, Error> {
        let existing = self.store.get(account.id, id).await.map_err(Error::from)?;
        if let Some(chat) = &existing {
            check_editor(chat, editor)?;
        }
        let mut models = match &existing {
            Some(chat) if put.from > 0 => chat.models.clone(),
            _ => Vec::new(),
        };
        for model in put.models() {
            if models.len() < MAX_MODELS && !models.iter().any(|known| known == model) {
                models.push(model.to_owned());
            }
        }
        let title = match (&put.title, &existing) {
            (Some(title), _) => Some(title.clone()),
            (None, Some(_)) => None,
            (None, None) => Some(put.new_title()),
        };
        let seal = |text: &[u8]| self.seal(account.id, id, text);
        let mut turns = Vec::with_capacity(put.turns.len());
        for turn in &put.turns {
            let text = turn.to_json();
            turns.push(stored(turn, seal(&text)?, text.len()));
        }
        let settings = serde_json::to_vec(&put.settings).map_err(Error::internal)?;
        let save = ChatSave {
            account: account.id,
            id,
            created_by: Some(editor.member),
            title: title.map(|title| seal(title.as_bytes())).transpose()?,
            models,
            settings: seal(&settings)?,
            base_revision: put.base_revision,
            from: put.from,
            turns,
            digest: put.digest(),
            kind: put.kind,
            cap: self.default_limit,
            max_turns: MAX_TURNS,
            max_bytes: MAX_BYTES,
            at: self.clock.now(),
        };
        match self.store.save(save).await.map_err(Error::from)? {
            ChatSaveOutcome::Saved(chat) => self.body(&chat),
            ChatSaveOutcome::Conflict => {
                let message = "The chat was changed or deleted elsewhere. Load it again, or save a copy.";
                Err(Error::new(ErrorCode::Conflict, message).with_param("base_revision"))
            }
            ChatSaveOutcome::Full => Err(limit_reached(self.limit(account))),
            ChatSaveOutcome::TooLarge => {
                let message = "A chat can have at most 500 turns and 4 MiB. Continue in a new chat.";
                Err(Error::new(ErrorCode::RequestTooLarge, message))
            }
            ChatSaveOutcome::Gap => Err(invalid("from", "is greater than the number of saved turns")),
        }
    }

    /// Returns a page of chats whose titles contain `search`, in upper or lower case.
    async fn page(
        &self,
        account: AccountId,
        mut after: Option<ChatId>,
        limit: u32,
        search: &str,
    ) -> Result<(Vec<(Chat, String)>, bool), Error> {
        let search = search.to_lowercase();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        loop {
            let chats = self.store.list(account, after, BATCH).await;
            let chats = chats.map_err(|error| match error.kind {
                StorageErrorKind::NotFound => invalid("after", "is not the id of a saved chat"),
                _ => Error::from(error),
            })?;
            for chat in &chats {
                let title = self.title(chat)?;
                if title.to_lowercase().contains(&search) {
                    if found.len() == limit {
                        return Ok((found, true));
                    }
                    found.push((chat.clone(), title));
                }
            }
            match chats.last() {
                Some(last) if u32::try_from(chats.len()) == Ok(BATCH) => after = Some(last.id),
                _ => return Ok((found, false)),
            }
        }
    }

    pub(super) async fn list(
        &self,
        account: &Account,
        after: Option<ChatId>,
        limit: u32,
        search: &str,
    ) -> Result<ChatList, Error> {
        let (chats, has_more) = self.page(account.id, after, limit, search).await?;
        let data = chats.into_iter().map(|(chat, title)| ChatBody::of(&chat, title));
        Ok(ChatList {
            data: data.collect(),
            has_more,
            count: self.store.count(account.id).await.map_err(Error::from)?,
            limit: self.limit(account),
        })
    }

    /// Returns a chat with its turns.
    pub(super) async fn get(&self, account: AccountId, id: ChatId) -> Result<WholeChat, Error> {
        let found = self.store.load(account, id).await.map_err(Error::from)?;
        let (chat, turns) = found.ok_or_else(no_such_chat)?;
        let turns = turns.iter().map(|turn| self.json(&chat, &turn.body));
        Ok(WholeChat {
            content: turns.collect::<Result<_, _>>()?,
            settings: self.json(&chat, &chat.settings)?,
            chat: self.body(&chat)?,
        })
    }

    pub(super) async fn rename(
        &self,
        account: AccountId,
        id: ChatId,
        editor: Editor,
        title: &str,
    ) -> Result<ChatBody, Error> {
        self.editable(account, id, editor).await?;
        let title = self.seal(account, id, title.as_bytes())?;
        let renamed = self.store.rename(account, id, title, self.clock.now()).await;
        let renamed = renamed.map_err(Error::from)?;
        self.body(&renamed.ok_or_else(no_such_chat)?)
    }

    pub(super) async fn delete(&self, account: AccountId, id: ChatId, editor: Editor) -> Result<(), Error> {
        self.editable(account, id, editor).await?;
        match self.store.delete(account, id).await.map_err(Error::from)? {
            true => Ok(()),
            false => Err(no_such_chat()),
        }
    }

    /// Deletes the chats of the editor; all chats of the account if the editor manages it.
    pub(super) async fn delete_all(&self, account: AccountId, editor: Editor) -> Result<u64, Error> {
        let member = (!editor.is_manager).then_some(editor.member);
        self.store.delete_all(account, member).await.map_err(Error::from)
    }

    /// Returns the ids of the next chats of an export.
    pub(super) async fn ids_after(
        &self,
        account: AccountId,
        after: Option<ChatId>,
    ) -> Result<Vec<ChatId>, Error> {
        let chats = self
            .store
            .list(account, after, BATCH)
            .await
            .map_err(Error::from)?;
        Ok(chats.iter().map(|chat| chat.id).collect())
    }

    pub(crate) async fn conversations(
        &self,
        account: AccountId,
        after: Option<ChatId>,
        limit: u32,
    ) -> Result<ConversationList, Error> {
        let (chats, has_more) = self.page(account, after, limit, "").await?;
        let data = chats
            .into_iter()
            .map(|(chat, title)| Conversation::of(&chat, title));
        Ok(ConversationList {
            object: "list",
            data: data.collect(),
            has_more,
        })
    }

    pub(crate) async fn conversation(
        &self,
        account: AccountId,
        id: ChatId,
    ) -> Result<WholeConversation, Error> {
        let found = self.store.load(account, id).await.map_err(Error::from)?;
        let (chat, turns) = found.ok_or_else(no_such_chat)?;
        let mut messages = Vec::new();
        for turn in &turns {
            let value = self.json(&chat, &turn.body)?;
            messages.extend(Message::of_turn(&value, &turn.requests, chat.updated_at));
        }
        Ok(WholeConversation {
            conversation: Conversation::of(&chat, self.title(&chat)?),
            settings: self.json(&chat, &chat.settings)?,
            messages,
        })
    }
}

fn check_editor(chat: &Chat, editor: Editor) -> Result<(), Error> {
    if editor.is_manager || chat.created_by == Some(editor.member) {
        return Ok(());
    }
    let message = "Only the member who saved the chat, admins and owners may change it. Save a copy instead.";
    Err(Error::new(ErrorCode::PermissionDenied, message).with_param("role"))
}

fn limit_reached(limit: u32) -> Error {
    let message = format!(
        "The account has the maximum of {limit} saved chats. Delete a chat, or ask the operator of this service for a higher limit."
    );
    Error::new(ErrorCode::ChatLimitReached, message)
}

pub(super) fn no_such_chat() -> Error {
    Error::new(ErrorCode::NotFound, "The chat does not exist.")
}
