import type { ComponentChildren, ComponentType } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { ConfirmDialog } from "../../parts/confirm.tsx";
import { Chip, Tabs } from "../../parts/data.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Menu, type MenuItem } from "../../parts/menu.tsx";
import { Banner, EmptyState, ErrorState, Skeleton } from "../../parts/states.tsx";
import { notify, notifyFailure } from "../../parts/toast.tsx";
import { useAction } from "../../shell/action.ts";
import { request, toApiError, type ApiError } from "../../shell/api.ts";
import { Page } from "../../shell/page.tsx";
import { mayMakeCalls, mayReadContents } from "../../shell/roles.ts";
import { href, place, setParams } from "../../shell/router.ts";
import { account, role } from "../../shell/session.ts";
import { SPEECH_ENDPOINT, SpeechMode, TRANSCRIPTION_ENDPOINT, TranscriptionMode } from "./audio.tsx";
import { batchModels, BatchMode } from "./batch.tsx";
import { catalog, findModel, loadCatalog, modelsFor, shortName } from "./catalog.ts";
import { CHAT_ENDPOINT, ChatMode, defaultModels } from "./chat.tsx";
import { CodeDialog } from "./code-dialog.tsx";
import type { CodeRequest } from "./code.ts";
import { ComposeMode } from "./compose.tsx";
import { chat, chatsChanged, Conversation, loadChat, showChat, switchTo, toTurn } from "./conversation.ts";
import { DECISIONS_ENDPOINT, DecisionsMode } from "./decisions.tsx";
import { EMBEDDINGS_ENDPOINT, EmbeddingsMode } from "./embeddings.tsx";
import { IMAGE_ENDPOINT, ImageMode, VIDEO_ENDPOINT, VideoMode } from "./media.tsx";
import { RESEARCH_ENDPOINT, ResearchMode } from "./research.tsx";
import { SaveIndicator } from "./save-state.tsx";
import { defaultSettings } from "./settings.ts";
import { talkModels } from "./voice-state.ts";
import { VoiceMode } from "./voice.tsx";

/** Kinds of calls, in the order of their tabs. A kind without a model is not shown. */
const MODES = [
  { value: "chat", label: "Chat", isShown: () => modelsFor(CHAT_ENDPOINT).length > 0 },
  { value: "image", label: "Image", isShown: () => modelsFor(IMAGE_ENDPOINT).length > 0 },
  { value: "video", label: "Video", isShown: () => modelsFor(VIDEO_ENDPOINT).length > 0 },
  {
    value: "compose",
    label: "Compose",
    isShown: () => modelsFor(IMAGE_ENDPOINT).length + modelsFor(VIDEO_ENDPOINT).length > 0,
  },
  { value: "research", label: "Research", isShown: () => modelsFor(RESEARCH_ENDPOINT).length > 0 },
  { value: "speech", label: "Speech", isShown: () => modelsFor(SPEECH_ENDPOINT).length > 0 },
  { value: "transcribe", label: "Transcribe", isShown: () => modelsFor(TRANSCRIPTION_ENDPOINT).length > 0 },
  { value: "voice", label: "Voice", isShown: () => talkModels().length > 0 },
  { value: "embed", label: "Embed", isShown: () => modelsFor(EMBEDDINGS_ENDPOINT).length > 0 },
  { value: "decide", label: "Decide", isShown: () => modelsFor(DECISIONS_ENDPOINT).length > 0 },
  { value: "batch", label: "Batch", isShown: () => batchModels().length > 0 },
] as const;

type Mode = (typeof MODES)[number]["value"];

/** Calls every kind of model from the console. */
export function Screen() {
  if (!mayReadContents()) {
    return (
      <Page title="Playground">
        <EmptyState title="Your role does not include the playground">
          Members, admins and owners can make calls here. Ask an admin of the account for another role.
        </EmptyState>
      </Page>
    );
  }
  return <Playground />;
}

function Playground() {
  const id = account.value?.id ?? null;
  const { models, error, account: loadedFor } = catalog.value;
  useLayoutEffect(() => {
    void loadCatalog();
  }, [id]);
  if (!models || loadedFor !== id) {
    return (
      <Page title="Playground" isFlush>
        {error ? (
          <ErrorState what="The models" error={error} onRetry={() => void loadCatalog()} />
        ) : (
          <div class="in-pad stack g24" aria-busy="true">
            <Skeleton width="50%" height={20} />
            <Skeleton width="100%" height={320} />
          </div>
        )}
      </Page>
    );
  }
  const shown = MODES.filter((mode) => mode.isShown());
  if (shown.length === 0) {
    return (
      <Page title="Playground">
        <EmptyState title="The service offers no models">Ask the operator of this service to add a provider.</EmptyState>
      </Page>
    );
  }
  const { params } = place.value;
  const named = shown.find((one) => one.value === params.get("mode"));
  const mode = (named ?? shown.find((one) => one.value === modeOf(params.get("model"))) ?? shown[0])?.value ?? "chat";
  const Shown = PAGES[mode];
  return <Shown tabs={<ModeTabs shown={shown} mode={mode} />} mayCall={mayMakeCalls()} />;
}

const KINDS: Record<string, Mode> = {
  image: "image",
  video: "video",
  research: "research",
  speech: "speech",
  transcription: "transcribe",
  realtime: "voice",
  embedding: "embed",
  decision: "decide",
};

/** Returns the mode of a model that a link names. */
function modeOf(model: string | null): Mode {
  return KINDS[(model && findModel(model)?.type) || ""] ?? "chat";
}

/** Whether the person has just chosen the mode in the tabs. */
let isTabChosen = false;

function ModeTabs(props: { shown: readonly { value: Mode; label: string }[]; mode: Mode }) {
  const element = useRef<HTMLDivElement>(null);
  // Each mode has a page with its own tabs. The focus stays in them, so that the arrow keys continue.
  useLayoutEffect(() => {
    if (isTabChosen) element.current?.querySelector<HTMLElement>('[aria-selected="true"]')?.focus();
    isTabChosen = false;
  }, []);
  return (
    <div ref={element} class="modes">
      <Tabs
        label="Kind of call"
        value={props.mode}
        tabs={props.shown}
        onChange={(mode) => {
          isTabChosen = true;
          setParams({ mode: mode === "chat" ? null : mode, chat: null, model: null });
        }}
      />
    </div>
  );
}

const PAGES: Record<Mode, ComponentType<{ tabs: ComponentChildren; mayCall: boolean }>> = {
  chat: ChatPage,
  image: ImageMode,
  video: VideoMode,
  compose: ComposeMode,
  research: ResearchMode,
  speech: SpeechMode,
  transcribe: TranscriptionMode,
  voice: VoiceMode,
  embed: EmbeddingsMode,
  decide: DecisionsMode,
  batch: BatchMode,
};

type Opened = "rename" | "delete" | null;

function ChatPage(props: { tabs: ComponentChildren; mayCall: boolean }) {
  const { params } = place.value;
  const requested = params.get("chat");
  const model = params.get("model");
  const [error, setError] = useState<ApiError | null>(null);
  const [attempt, setAttempt] = useState(0);
  const [opened, setOpened] = useState<Opened>(null);
  const [code, setCode] = useState<ShownCode | null>(null);
  const conversation = chat.value;
  const isShown = conversation.account === account.value?.id && (!requested || conversation.id === requested);

  useLayoutEffect(() => {
    setError(null);
    if (isShown) {
      // The chat was created before the models were known.
      if (conversation.settings.peek().models.length === 0) conversation.change({ models: defaultModels() });
      return undefined;
    }
    if (!requested) {
      showChat(newChat());
      return undefined;
    }
    let isCurrent = true;
    loadChat(requested, defaultModels()).then(
      (loaded) => isCurrent && showChat(loaded),
      (failure: unknown) => isCurrent && setError(toApiError(failure)),
    );
    return () => {
      isCurrent = false;
    };
  }, [requested, isShown, attempt]);

  // A link requests a new chat, or names its model.
  const isNew = params.has("new");
  useLayoutEffect(() => {
    if ((!model && !isNew) || requested) return;
    if (isNew || (model && findModel(model))) showChat(newChat(model && findModel(model) ? [model] : undefined));
    setParams({ model: null, new: null });
  }, [model, isNew]);

  // The address names a saved chat, so that a reload shows it again.
  const savedId = conversation.record.value?.id ?? null;
  useEffect(() => {
    if (isShown && savedId !== requested && !error) setParams({ chat: savedId });
  }, [savedId, isShown]);

  const state = conversation.saveState.value;
  const title = isShown ? conversation.title.value || "New chat" : "Chat";
  const mayChange = props.mayCall;
  const isOwn = isOwnChat(conversation);
  const hasTurns = conversation.turns.value.length > 0;
  const start = () => {
    switchTo(newChat(conversation.settings.peek().models));
  };
  return (
    <Page
      title={title}
      isFlush
      note={
        isShown && (
          <>
            {conversation.isTemporary.value ? <Chip>Temporary</Chip> : <SaveIndicator state={state} />}
            <ChatMenu conversation={conversation} isOwn={isOwn} onOpen={setOpened} />
          </>
        )
      }
      action={
        <span class="row pactions">
          <a class="btn sm bare wideonly" href={href("/chats")}>
            <Icon name="chat" />
            Chats
          </a>
          <Button size="small" icon="code" disabled={!isShown} onClick={() => void codeOf(conversation).then(setCode)}>
            <span class="wideonly">Code</span>
            <span class="sr narrow">Code</span>
          </Button>
          <Button size="small" icon="plus" disabled={!hasTurns} onClick={start}>
            New chat
          </Button>
        </span>
      }
    >
      {props.tabs}
      {isShown && <SaveBanner conversation={conversation} onReload={() => setAttempt(attempt + 1)} />}
      {error ? (
        error.status === 404 ? (
          <EmptyState title="This chat does not exist" action={<Button onClick={start}>Start a new chat</Button>}>
            It was deleted, or it belongs to another account.
          </EmptyState>
        ) : (
          <ErrorState what="The chat" error={error} onRetry={() => setAttempt(attempt + 1)} />
        )
      ) : isShown ? (
        <ChatMode mayChange={mayChange} isOwn={isOwn} />
      ) : (
        <div class="in-pad stack g24" aria-busy="true">
          <Skeleton width="50%" height={20} />
          <Skeleton width="100%" height={240} />
        </div>
      )}
      {code && <CodeDialog {...code} onClose={() => setCode(null)} />}
      {opened === "rename" && <RenameDialog conversation={conversation} onClose={() => setOpened(null)} />}
      {opened === "delete" && (
        <ConfirmDialog
          title="Delete this chat?"
          action="Delete chat"
          onClose={() => setOpened(null)}
          onConfirm={async () => {
            await request("DELETE", `/chats/${conversation.id}`, { account: true });
            conversation.discard();
            chatsChanged();
            notify("Chat deleted");
            setOpened(null);
            start();
          }}
        >
          The chat is deleted immediately, for all people in the account. Its calls stay in Calls.
        </ConfirmDialog>
      )}
    </Page>
  );
}

function newChat(models = defaultModels()): Conversation {
  return new Conversation(defaultSettings(models.length > 0 ? models : defaultModels()));
}

/** Whether the person may change a saved chat. Members change their own chats. */
function isOwnChat(conversation: Conversation): boolean {
  const record = conversation.record.value;
  return !record || role.value !== "member" || record.created_by === account.value?.member_id;
}

function ChatMenu(props: { conversation: Conversation; isOwn: boolean; onOpen: (opened: Opened) => void }) {
  const { conversation } = props;
  const isSaved = conversation.record.value !== null;
  const hasTurns = conversation.turns.value.length > 0;
  const isTemporary = conversation.isTemporary.value;
  const items: MenuItem[] = [
    ...(hasTurns && props.isOwn ? [{ label: "Rename", icon: "edit" as const, onSelect: () => props.onOpen("rename") }] : []),
    ...(hasTurns && !conversation.isRunning
      ? [
          { label: "Continue in a copy", icon: "branch" as const, onSelect: () => switchTo(conversation.branch()) },
          { label: "Download as JSON", icon: "download" as const, onSelect: () => downloadChat(conversation) },
        ]
      : []),
    ...(isSaved ? [] : [{ label: "Temporary chat", isChecked: isTemporary, onSelect: () => conversation.setTemporary(!isTemporary) }]),
    ...(isSaved && props.isOwn
      ? [
          {
            label: "Delete chat",
            icon: "remove" as const,
            isDanger: true,
            isFirstOfGroup: true,
            onSelect: () => props.onOpen("delete"),
          },
        ]
      : []),
  ];
  return (
    <Menu class="btn sm sq bare" isIcon label="Chat" items={items}>
      <Icon name="more" />
    </Menu>
  );
}

/** Why the chat is not saved, and what the person can do. */
function SaveBanner(props: { conversation: Conversation; onReload: () => void }) {
  const { conversation } = props;
  const state = conversation.saveState.value;
  if (conversation.isTemporary.value || state.kind !== "not_saving") return null;
  const copy = () => {
    const next = conversation.branch();
    conversation.discard();
    switchTo(next);
  };
  const actions = {
    full: (
      <a class="btn sm" href={href("/chats")}>
        Delete chats
      </a>
    ),
    conflict: (
      <span class="row">
        <Button
          size="small"
          icon="retry"
          onClick={() => {
            conversation.discard();
            reload(conversation.id, props.onReload);
          }}
        >
          Load again
        </Button>
        <Button size="small" icon="branch" onClick={copy}>
          Save a copy
        </Button>
      </span>
    ),
    too_large: (
      <Button size="small" onClick={() => switchTo(newChat(conversation.settings.peek().models))}>
        Start a new chat
      </Button>
    ),
    refused: (
      <Button size="small" icon="branch" onClick={copy}>
        Save a copy
      </Button>
    ),
  };
  return (
    <Banner kind={state.reason === "full" ? "warning" : "failure"} action={actions[state.reason]}>
      <b>Not saving.</b> {state.message}
      {state.reason === "full" && " The chat continues here, and saves itself when another chat is deleted."}
    </Banner>
  );
}

function reload(id: string, onFailure: () => void): void {
  loadChat(id, defaultModels()).then(showChat, (error: unknown) => {
    notifyFailure("The chat was not loaded", error);
    onFailure();
  });
}

function RenameDialog(props: { conversation: Conversation; onClose: () => void }) {
  const [title, setTitle] = useState(props.conversation.title.peek());
  const [fault, setFault] = useState<string | null>(null);
  const { isBusy, error, run } = useAction();
  return (
    <Dialog
      title="Rename the chat"
      size="small"
      onClose={props.onClose}
      onSubmit={() => {
        const name = title.trim();
        setFault(name ? null : "Enter a title.");
        if (!name) return;
        run(async () => {
          await props.conversation.rename(name);
          props.onClose();
        });
      }}
      footer={
        <>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={isBusy}>
            Rename
          </Button>
        </>
      }
    >
      {error && <Banner kind="failure">{error.message}</Banner>}
      <Field label="Title" value={title} maxLength={200} error={fault} autoFocus onInput={setTitle} />
    </Dialog>
  );
}

interface ShownCode {
  requests: CodeRequest[];
  isSent: boolean;
}

async function codeOf(conversation: Conversation): Promise<ShownCode> {
  const settings = conversation.settings.peek();
  const maxCost = settings.maxCost.trim();
  const headers = maxCost ? { headers: { "x-max-cost": maxCost } } : {};
  const turns = conversation.turns.peek();
  const sent = turns.at(-1)?.answers.filter((answer) => answer.body !== null) ?? [];
  const bodies =
    sent.length > 0
      ? sent.map((answer) => ({ model: answer.model, json: answer.body ?? "" }))
      : await Promise.all(
          settings.models.map(async (model, column) => {
            const body = await conversation.bodyFor(column, turns.length > 0 ? null : { content: "Say hello." });
            return { model, json: JSON.stringify(body) };
          }),
        );
  return {
    isSent: sent.length > 0,
    requests: bodies.map(({ model, json }) => ({ label: shortName(model), path: "/chat/completions", body: { json }, ...headers })),
  };
}

const RELEASE_MS = 60_000;

function downloadChat(conversation: Conversation): void {
  const content = {
    id: conversation.id,
    title: conversation.title.peek(),
    kind: "chat",
    settings: conversation.settings.peek(),
    content: conversation.turns.peek().map(toTurn),
  };
  const url = URL.createObjectURL(new Blob([JSON.stringify(content, null, 2)], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${conversation.id}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), RELEASE_MS);
}
