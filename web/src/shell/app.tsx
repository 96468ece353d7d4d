import { Component, render, type ComponentChildren, type ComponentType } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

import { Button } from "../parts/button.tsx";
import type { IconName } from "../parts/icon.tsx";
import { EmptyState, ErrorState, Skeleton } from "../parts/states.tsx";
import { Toasts } from "../parts/toast.tsx";
import { DOCUMENTATION, isOperator, reconnections, toApiError, type ApiError } from "./api.ts";
import { loadDetails } from "./details.ts";
import { follow, useLive } from "./live.ts";
import { Page } from "./page.tsx";
import { Palette, type Command } from "./palette.tsx";
import { followLink, href, navigate, ownPath, place } from "./router.ts";
import {
  account,
  chooseAccount,
  continueAfterSignIn,
  isSignedIn,
  isSessionLoading,
  loadSession,
  session,
  sessionError,
  signInToken,
} from "./session.ts";
import { endSession, Side, TopBar } from "./side.tsx";
import { StepUp } from "./step-up.tsx";
import { setTheme, theme, THEMES } from "./theme.ts";
import { loadUsage, takeBalance } from "./usage.ts";

type Loader = () => Promise<{ Screen: ComponentType }>;

export interface ScreenEntry {
  /** Path after `/console`; longer paths belong to the same screen. */
  path: string;
  label: string;
  icon: IconName;
  group?: string;
  /** Whether the navigation shows the screen only beside the person. */
  isInFooter?: boolean;
  /** Whether the role of the person allows the screen. The default is every role. */
  isAllowed?: () => boolean;
  /** Number beside the label; 0 shows none. */
  count?: () => number;
  load: Loader;
}

export interface Console {
  screens: ScreenEntry[];
  signIn: Loader;
  /** Completes a new person. */
  welcome?: Loader;
  /** Actions for the command palette. */
  commands: () => Command[];
}

const FIRST_SCREEN_TIMEOUT_MS = 200;

/** Draws a console and loads the session. */
export function start(console: Console): void {
  const root = document.getElementById("app");
  if (!root) return;
  document.addEventListener("click", followLink);
  render(
    <ErrorBoundary>
      <App console={console} />
      <StepUp />
      <Toasts />
    </ErrorBoundary>,
    root,
  );
  const { path, params } = place.value;
  const isSignIn = path === "/sign-in";
  const first = isSignIn ? console.signIn : screenOf(console, path)?.load;
  // The first drawing shows the screen and no skeleton, unless its module is late.
  const timeout = new Promise<void>((done) => setTimeout(done, FIRST_SCREEN_TIMEOUT_MS));
  const ready = Promise.race([timeout, first ? load(first) : undefined]).then(loadSession, loadSession);
  // The screen after the sign-in loads while the person types.
  if (isSignIn) void ready.then(() => screenOf(console, ownPath(params.get("next")))?.load());
}

function App(props: { console: Console }) {
  const { path } = place.value;
  if (sessionError.value) {
    return (
      <main class="boot">
        <ErrorState what="Your session" error={sessionError.value} onRetry={() => void loadSession()} />
      </main>
    );
  }
  if (isSessionLoading.value) return null;
  return <Signed console={props.console} path={path} />;
}

function Signed(props: { console: Console; path: string }) {
  const { console, path } = props;
  const isSignIn = path === "/sign-in";
  const isWelcome = isSignedIn.value && !!session.value?.setup_required;
  const hasLink = isSignIn && signInToken.value !== null;
  useLayoutEffect(() => {
    if (!isSignedIn.value && !isSignIn) {
      const here = href(path) + location.search;
      navigate(path === "/" ? "/sign-in" : `/sign-in?next=${encodeURIComponent(here)}`, { replace: true });
    } else if (isSignedIn.value && isSignIn && !hasLink) {
      continueAfterSignIn();
    } else if (isSignedIn.value && path === "/") {
      navigate("/overview", { replace: true });
    }
  }, [isSignedIn.value, path, hasLink]);
  if (isSignIn && (!isSignedIn.value || hasLink)) return <Lazy key="sign-in" load={console.signIn} />;
  if (!isSignedIn.value || isSignIn || path === "/") return null;
  if (isWelcome && console.welcome) return <Lazy key="welcome" load={console.welcome} />;
  return <Frame console={console} path={path} />;
}

/** Returns the screen at a path. The path `/` leads to the overview. */
function screenOf(console: Console, path: string): ScreenEntry | undefined {
  const name = path === "/" ? "overview" : path.split(/[/?]/)[1];
  return console.screens.find((one) => one.path === `/${name}`);
}

function Frame(props: { console: Console; path: string }) {
  const { console, path } = props;
  const screen = screenOf(console, path);
  const shown = account.value?.id;
  const reconnected = reconnections.value;
  useLayoutEffect(() => {
    if (isOperator) return;
    void loadUsage();
    void loadDetails();
  }, [shown, reconnected]);
  useEffect(() => (isOperator || !shown ? undefined : follow(shown)), [shown]);
  useLive("balance", takeBalance);
  useLive("limits", () => void loadDetails());
  return (
    <div class={isOperator ? "app operator" : "app"}>
      <a class="btn skip" href="#main">
        Skip to the content
      </a>
      <Side console={console} />
      <TopBar console={console} />
      <main class="sheet" id="main" tabIndex={-1}>
        <ErrorBoundary key={screen?.path ?? path}>
          {!isOperator && !account.value && path !== "/settings" ? (
            <NoAccount />
          ) : screen ? (
            <Lazy key={screen.path + (shown ?? "")} load={screen.load} />
          ) : (
            <Page title="Not found">
              <EmptyState
                title="This page does not exist"
                action={<Button onClick={() => navigate("/overview")}>Open the overview</Button>}
              >
                Check the address, or open a page of the navigation.
              </EmptyState>
            </Page>
          )}
        </ErrorBoundary>
      </main>
      <Palette commands={() => commands(console)} />
    </div>
  );
}

function NoAccount() {
  return (
    <Page title="No account">
      <EmptyState title="You are in no account" action={<Button onClick={endSession}>Sign out</Button>}>
        You were removed, or the account was closed. Ask an admin of an account for an invitation.
      </EmptyState>
    </Page>
  );
}

function commands(console: Console): Command[] {
  const accounts = session.value?.accounts ?? [];
  return [
    ...console.commands(),
    ...THEMES.filter((one) => one.value !== theme.value).map(
      (one): Command => ({
        group: "Actions",
        label: `Use the ${one.label.toLowerCase()} theme`,
        icon: "theme",
        run: () => setTheme(one.value),
      }),
    ),
    { group: "Actions", label: "Sign out", icon: "signout", run: endSession },
    ...console.screens.filter((screen) => screen.isAllowed?.() ?? true).map(
      (screen): Command => ({
        group: "Go to",
        label: screen.label,
        icon: screen.icon,
        run: () => navigate(screen.path),
      }),
    ),
    { group: "Go to", label: "API reference", icon: "guide", run: () => location.assign(DOCUMENTATION) },
    ...accounts
      .filter((one) => one.id !== account.value?.id)
      .map(
        (one): Command => ({
          group: "Accounts",
          label: one.name,
          icon: "accounts",
          run: () => chooseAccount(one.id),
        }),
      ),
  ];
}

const loaded = new Map<Loader, ComponentType>();

async function load(loader: Loader): Promise<void> {
  const module = await loader();
  loaded.set(loader, module.Screen);
}

/** Shows a screen whose module is loaded when it is needed. */
function Lazy(props: { load: Loader }) {
  const [, setReady] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const Screen = loaded.get(props.load);
  useLayoutEffect(() => {
    if (Screen) return;
    load(props.load).then(
      () => setReady(true),
      (failure: unknown) => setError(toApiError(failure)),
    );
  }, []);
  if (error) return <ErrorState what="The page" error={error} onRetry={() => location.reload()} />;
  if (Screen) return <Screen />;
  return (
    <div class="page stack g24" aria-busy="true">
      <Skeleton width="30%" height={20} />
      <Skeleton width="100%" height={96} />
      <Skeleton width="100%" height={240} />
    </div>
  );
}

/** Shows an error of the page itself instead of an empty page. */
class ErrorBoundary extends Component<{ children: ComponentChildren }, { error: unknown }> {
  override state: { error: unknown } = { error: null };

  static override getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <div class="boot">
        <ErrorState what="The page" error={toApiError(this.state.error)} onRetry={() => location.reload()} />
      </div>
    );
  }
}
