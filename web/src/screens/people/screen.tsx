import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Avatar, Card, Chip, Status, Table, Time, type Column } from "../../parts/data.tsx";
import { SearchField } from "../../parts/field.tsx";
import { Menu } from "../../parts/menu.tsx";
import { Icon } from "../../parts/icon.tsx";
import { EmptyState, ErrorState, TableSkeleton } from "../../parts/states.tsx";
import { notifyFailure } from "../../parts/toast.tsx";
import { request } from "../../shell/api.ts";
import { plural } from "../../shell/format.ts";
import { Page } from "../../shell/page.tsx";
import { useResource } from "../../shell/resource.ts";
import { isSelf, mayManage, mayManageRole, roleLabel } from "../../shell/roles.ts";
import { place, setParams } from "../../shell/router.ts";
import { account } from "../../shell/session.ts";
import type { Invitation, List, Member } from "../../shell/types.ts";
import { InvitationDialog, InviteDialog, RemoveDialog, RoleDialog } from "./dialogs.tsx";

type Opened =
  | { kind: "invite" }
  | { kind: "invitation"; invitation: Invitation }
  | { kind: "role" | "remove"; member: Member }
  | null;

function nameOf(member: Member): string {
  return member.name || member.email;
}

/** Members and invitations of the account that is shown. */
export function Screen() {
  const members = useResource(account.value?.id ?? null, (signal) =>
    request<List<Member>>("GET", "/members", { account: true, signal }),
  );
  const [query, setQuery] = useState("");
  const mayInvite = mayManageRole("viewer");
  const isInviteRequested = place.value.params.has("invite") && mayInvite;
  const [opened, setOpened] = useState<Opened>(isInviteRequested ? { kind: "invite" } : null);
  const shown: Opened = opened ?? (isInviteRequested ? { kind: "invite" } : null);

  const close = () => {
    setOpened(null);
    if (isInviteRequested) setParams({ invite: null });
  };
  const showInvitation = (invitation: Invitation) => {
    setOpened({ kind: "invitation", invitation });
    if (isInviteRequested) setParams({ invite: null });
    members.reload();
  };
  const renew = (member: Member) => {
    request<Invitation>("POST", `/invitations/${member.id}/renew`, { body: {}, account: true }).then(
      showInvitation,
      (error: unknown) => notifyFailure("No new link", error),
    );
  };

  const all = members.data?.data ?? [];
  const text = query.trim().toLowerCase();
  const rows = all.filter((member) => `${member.name} ${member.email} ${member.role}`.toLowerCase().includes(text));
  const columns: Column<Member>[] = [
    { label: "Person", cell: (member) => <PersonCell member={member} /> },
    { label: "Role", cell: (member) => <Chip>{roleLabel(member.role)}</Chip> },
    { label: "Status", isOptional: true, cell: (member) => <StatusCell member={member} /> },
    { label: "Added", isOptional: true, cell: (member) => <Time at={member.created_at} /> },
    {
      label: "Actions",
      isHidden: true,
      isNumber: true,
      cell: (member) =>
        mayManage(member) && (
          <Menu
            class="btn sm sq bare"
            isIcon
            label={`Actions for ${nameOf(member)}`}
            items={[
              ...(member.status === "active"
                ? [
                    {
                      label: "Change role",
                      icon: "edit" as const,
                      onSelect: () => setOpened({ kind: "role", member }),
                    },
                  ]
                : [{ label: "New link", icon: "link" as const, onSelect: () => renew(member) }]),
              {
                label: member.status === "active" ? "Remove" : "Withdraw the invitation",
                icon: "remove",
                isDanger: true,
                isFirstOfGroup: true,
                onSelect: () => setOpened({ kind: "remove", member }),
              },
            ]}
          >
            <Icon name="more" />
          </Menu>
        ),
    },
  ];

  return (
    <Page
      title="People"
      action={
        mayInvite && (
          <Button kind="primary" icon="plus" onClick={() => setOpened({ kind: "invite" })}>
            Invite
          </Button>
        )
      }
    >
      <div class="filters">
        <SearchField label="Name, e-mail or role" value={query} onInput={setQuery} />
        <span class="end muted t12 num" role="status">
          {members.data && counts(all)}
        </span>
      </div>
      <section class="card after-filters">
        {members.error && !members.data ? (
          <ErrorState what="The list of people" error={members.error} onRetry={members.reload} />
        ) : !members.data ? (
          <TableSkeleton columns={["200px", "72px", "80px", "72px"]} />
        ) : rows.length === 0 ? (
          <EmptyState title={`No person matches “${query}”`} action={<Button onClick={() => setQuery("")}>Show all</Button>} />
        ) : (
          <Table caption="People" columns={columns} rows={rows} id={(member) => member.id} size="tall" />
        )}
      </section>
      {members.data && all.length === 1 && mayInvite && (
        <Card title="Work with others">
          <EmptyState title="You are the only person in this account">
            Invite people with a link. Each person signs in with their own password, and has one role.
          </EmptyState>
        </Card>
      )}
      {shown?.kind === "invite" && <InviteDialog onClose={close} onInvited={showInvitation} />}
      {shown?.kind === "invitation" && <InvitationDialog invitation={shown.invitation} onClose={close} />}
      {shown?.kind === "role" && <RoleDialog member={shown.member} onClose={close} onChanged={members.reload} />}
      {shown?.kind === "remove" && <RemoveDialog member={shown.member} onClose={close} onRemoved={members.reload} />}
    </Page>
  );
}

function counts(members: Member[]): string {
  const active = members.filter((member) => member.status === "active").length;
  const invited = members.length - active;
  return plural(active, "person", "people") + (invited > 0 ? `, ${plural(invited, "invitation")}` : "");
}

function PersonCell(props: { member: Member }) {
  const { member } = props;
  return (
    <span class="person">
      <Avatar name={nameOf(member)} isLarge isOff={member.status !== "active"} />
      <span>
        <span class="row g4">
          <span class="strong5 trunc">{nameOf(member)}</span>
          {isSelf(member) && <span class="muted">(you)</span>}
        </span>
        <span class="muted t12 trunc">{member.name ? member.email : member.status === "active" ? "" : "Not signed in yet"}</span>
      </span>
    </span>
  );
}

function StatusCell(props: { member: Member }) {
  const { status, invitation_expires_at: end } = props.member;
  if (status === "active") {
    return (
      <Status tone="ok" isQuiet>
        Active
      </Status>
    );
  }
  return status === "invited" ? (
    <span class="row">
      <Status tone="info">Invited</Status>
      {end && (
        <span class="t12">
          <span class="muted">expires </span>
          <Time at={end} />
        </span>
      )}
    </span>
  ) : (
    <Status tone="warn">Invitation expired</Status>
  );
}
