import { isSuspended } from "./details.ts";
import { role, session, account } from "./session.ts";
import type { ApiKey, Member, Role } from "./types.ts";

export const ROLES: readonly { value: Role; label: string; note: string }[] = [
  { value: "owner", label: "Owner", note: "All permissions. An account always has an owner." },
  { value: "admin", label: "Admin", note: "All keys, webhooks and alerts, and the people below admins." },
  { value: "billing", label: "Billing", note: "Reads everything but bodies and chats; top-ups, plans and statements." },
  { value: "member", label: "Member", note: "Own keys, playground, chats, jobs and files." },
  { value: "viewer", label: "Viewer", note: "Reads everything but bodies and chats, and changes nothing." },
];

export function roleLabel(value: string): string {
  return ROLES.find((one) => one.value === value)?.label ?? value;
}

const PHRASES: Record<Role, string> = {
  owner: "is now an owner",
  admin: "is now an admin",
  billing: "now has the role Billing",
  member: "is now a member",
  viewer: "is now a viewer",
};

/** Returns a sentence such as `Ana Ruiz is now a member`. */
export function describeNewRole(name: string, value: Role): string {
  return `${name} ${PHRASES[value]}`;
}

/** Whether the person may give or take a role in the account that is shown. */
export function mayManageRole(value: Role): boolean {
  if (isSuspended.value) return false;
  if (role.value === "owner") return true;
  return role.value === "admin" && value !== "owner" && value !== "admin";
}

export function mayManage(member: Member): boolean {
  return mayManageRole(member.role);
}

export function isSelf(member: Member): boolean {
  return member.id === account.value?.member_id || (!!member.email && member.email === session.value?.person.email);
}

/** Whether the person may create keys in the account that is shown. */
export function mayCreateKeys(): boolean {
  const isMember = role.value === "owner" || role.value === "admin" || role.value === "member";
  return isMember && !isSuspended.value;
}

/** Whether the person may change, rotate and revoke a key. Members may change their own keys. */
export function mayChangeKey(key: ApiKey): boolean {
  if (!mayCreateKeys()) return false;
  return role.value !== "member" || key.created_by === account.value?.member_id;
}

/** Whether the person may read contents: files, and the results of jobs and batches. */
export function mayReadContents(): boolean {
  return role.value === "owner" || role.value === "admin" || role.value === "member";
}

/** Whether the person may make calls and create jobs, files and batches. */
export function mayMakeCalls(): boolean {
  return mayReadContents() && !isSuspended.value;
}

/** Whether the person may read the audit log and the webhooks of the account. */
export function mayAdminister(): boolean {
  return role.value === "owner" || role.value === "admin";
}
