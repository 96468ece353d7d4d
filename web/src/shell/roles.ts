import { role, session, account } from "./session.ts";
import type { Member, Role } from "./types.ts";

export const ROLES: readonly { value: Role; label: string; note: string }[] = [
  { value: "owner", label: "Owner", note: "Everything. An account always has an owner." },
  { value: "admin", label: "Admin", note: "All keys, webhooks and alerts, and the people below admins." },
  { value: "billing", label: "Billing", note: "Reads everything but bodies and chats; top-ups, plans and statements." },
  { value: "member", label: "Member", note: "Own keys, playground, chats, jobs and files." },
  { value: "viewer", label: "Viewer", note: "Reads everything but bodies and chats, and changes nothing." },
];

export function roleLabel(value: string): string {
  return ROLES.find((one) => one.value === value)?.label ?? value;
}

/** Whether the person may give or take a role in the account that is shown. */
export function mayManageRole(value: Role): boolean {
  if (account.value?.state === "suspended") return false;
  if (role.value === "owner") return true;
  return role.value === "admin" && value !== "owner" && value !== "admin";
}

export function mayManage(member: Member): boolean {
  return mayManageRole(member.role);
}

export function isSelf(member: Member): boolean {
  return member.id === account.value?.member_id || (!!member.email && member.email === session.value?.person.email);
}
