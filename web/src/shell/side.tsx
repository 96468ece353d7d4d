import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { Avatar, Meter } from "../parts/data.tsx";
import { Icon, Mark } from "../parts/icon.tsx";
import { Menu, type MenuItem } from "../parts/menu.tsx";
import { notifyFailure } from "../parts/toast.tsx";
import { isOperator } from "./api.ts";
import type { Console, ScreenEntry } from "./app.tsx";
import { amount, share } from "./format.ts";
import { openPalette } from "./palette.tsx";
import { href, navigate, place } from "./router.ts";
import { account, chooseAccount, operator, service, session, signOut } from "./session.ts";
import { setTheme, theme, THEMES } from "./theme.ts";
import { usage } from "./usage.ts";

export function endSession(): void {
  signOut().catch((error: unknown) => notifyFailure("You were not signed out", error));
}

function isCurrent(screen: ScreenEntry): boolean {
  const { path } = place.value;
  return path === screen.path || path.startsWith(`${screen.path}/`);
}

function Count(props: { of: ScreenEntry }) {
  const number = props.of.count?.() ?? 0;
  if (number === 0) return null;
  return (
    <span class="end muted num t12">
      {number}
      <span class="sr"> running</span>
    </span>
  );
}

/** The navigation, the account and the person. On phones it is a drawer. */
export function Side(props: { console: Console }) {
  return (
    <aside class="side" aria-label="Console">
      <div class="brand">
        <Mark />
        <span class="word">Tollgate</span>
        {isOperator && <span class="chip warn end">Operator</span>}
      </div>
      {!isOperator && <AccountSwitcher />}
      <Navigation screens={props.console.screens} />
      {!isOperator && <Till />}
      <Person />
    </aside>
  );
}

function AccountSwitcher() {
  const accounts = session.value?.accounts ?? [];
  const current = account.value;
  if (!current) return null;
  const content = (
    <>
      <span class="square" aria-hidden="true">
        {current.name.charAt(0).toUpperCase()}
      </span>
      <span class="grow trunc">
        <span class="sr">Account: </span>
        {current.name}
      </span>
    </>
  );
  if (accounts.length < 2) return <div class="acct">{content}</div>;
  return (
    <Menu
      class="acct"
      label="Accounts"
      items={accounts.map((one) => ({
        label: one.name,
        isChecked: one.id === current.id,
        onSelect: () => chooseAccount(one.id),
      }))}
    >
      {content}
      <Icon name="updown" small class="muted" />
    </Menu>
  );
}

function Navigation(props: { screens: ScreenEntry[] }) {
  const shown = props.screens.filter((screen) => !screen.isInFooter && (screen.isAllowed?.() ?? true));
  return (
    <nav class="nav" aria-label="Main">
      {shown.map((screen, index) => (
        <>
          {screen.group && screen.group !== shown[index - 1]?.group && <p>{screen.group}</p>}
          <a
            key={screen.path}
            href={href(screen.path)}
            aria-current={isCurrent(screen) ? "page" : undefined}
            onPointerEnter={() => void screen.load()}
          >
            <Icon name={screen.icon} />
            {screen.label}
            <Count of={screen} />
          </a>
        </>
      ))}
    </nav>
  );
}

function Till() {
  const { data } = usage.value;
  if (!data) return <div class="till" hidden />;
  const week = data.plan?.weekly_window;
  const isHeld = !/^[0.]*$/.test(data.balance.held);
  return (
    <div class="till">
      <div class="t12 muted row">Balance</div>
      <div class="row between">
        <span class="big">{amount(data.balance.credits, 2)}</span>
        {isHeld && <span class="t12 muted num">{amount(data.balance.held, 2)} on hold</span>}
      </div>
      {data.plan && week && (
        <>
          <div class="row between t12 muted">
            <span class="trunc">{data.plan.tier}, this week</span>
            <span class="num nowrap">
              {amount(week.used, 2)} of {amount(week.limit, 0)}
            </span>
          </div>
          <Meter used={share(week.used, week.limit)} label={`${amount(week.used, 2)} of ${amount(week.limit, 2)} used`} />
        </>
      )}
    </div>
  );
}

function Person() {
  const name = operator.value?.admin.name ?? session.value?.person.name ?? "";
  const note = operator.value?.admin.role ?? session.value?.person.email ?? "";
  const items: MenuItem[] = [
    { label: "Settings", icon: "settings", onSelect: () => navigate("/settings") },
    { label: "Sign out", icon: "signout", onSelect: endSession },
  ];
  return (
    <div class="me">
      <Menu
        class="who"
        label="Person"
        items={items}
        head={
          <span class="stack g2">
            <span class="strong5 trunc">{name || note}</span>
            <span class="muted t12 trunc">{note}</span>
          </span>
        }
      >
        <Avatar name={name || note} />
        <span class="grow trunc">{name || note}</span>
      </Menu>
      <ThemeMenu />
      <a class="btn sm sq bare" href={href("/settings")} aria-label="Settings" title="Settings">
        <Icon name="settings" />
      </a>
    </div>
  );
}

export function ThemeMenu() {
  return (
    <Menu
      class="btn sm sq bare"
      isIcon
      label="Theme"
      items={THEMES.map((one) => ({
        label: one.label,
        isChecked: one.value === theme.value,
        onSelect: () => setTheme(one.value),
      }))}
    >
      <Icon name="theme" />
    </Menu>
  );
}

/** The bar above the page on phones. */
export function TopBar(props: { console: Console }) {
  const [isOpen, setOpen] = useState(false);
  const { path } = place.value;
  useEffect(() => setOpen(false), [path, account.value?.id]);
  const { data } = usage.value;
  return (
    <header class="top">
      <span class="row grow">
        <Mark />
        {isOperator ? (
          <>
            <b>Tollgate</b>
            <span class="chip warn">Operator</span>
          </>
        ) : (
          <AccountSwitcher />
        )}
      </span>
      <span class="row g4">
        {!isOperator && data && <b class="num">{amount(data.balance.credits, 2)}</b>}
        <button type="button" class="btn sq bare" aria-label="Search" onClick={openPalette}>
          <Icon name="search" />
        </button>
        <button type="button" class="btn sq bare" aria-label="Menu" aria-expanded={isOpen} onClick={() => setOpen(true)}>
          <Icon name="menu" />
        </button>
      </span>
      {isOpen && (
        <Drawer onClose={() => setOpen(false)}>
          <Side console={props.console} />
        </Drawer>
      )}
    </header>
  );
}

/** The navigation on phones. */
export function Drawer(props: { children: ComponentChildren; onClose: () => void }) {
  const element = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const opener = document.activeElement;
    const dialog = element.current;
    dialog?.showModal();
    return () => {
      // The page behind an open dialog cannot take the focus.
      dialog?.close();
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class="drawer"
      aria-label="Menu"
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onClick={(event) => event.target === element.current && props.onClose()}
    >
      {props.children}
    </dialog>
  );
}

/** The version of the server, for pages without the navigation. */
export function Version() {
  return <span>Tollgate {service.value.version}</span>;
}
