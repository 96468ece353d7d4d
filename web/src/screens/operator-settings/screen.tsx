import { Button } from "../../parts/button.tsx";
import { Chip } from "../../parts/data.tsx";
import { Section } from "../../parts/section.tsx";
import { dateTime } from "../../shell/format.ts";
import { Page } from "../../shell/page.tsx";
import { operator } from "../../shell/session.ts";
import { Sessions, ThemeChoice } from "../../shell/sessions.tsx";
import { endSession } from "../../shell/side.tsx";

/** The administrator, the sessions and the theme. */
export function Screen() {
  const current = operator.value;
  return (
    <Page title="Settings">
      <div class="settings">
        <Section title="Administrator" note="Names and roles change with tollgate admins.">
          <dl class="kv">
            <dt>Name</dt>
            <dd>{current?.admin.name}</dd>
            <dt>Role</dt>
            <dd>
              <Chip>{current?.admin.role}</Chip>
            </dd>
            <dt>Session ends</dt>
            <dd>{current && dateTime(current.expires_at)}</dd>
          </dl>
        </Section>
        <Section title="Sessions" note="Every browser in which you are signed in.">
          <Sessions version={0} />
        </Section>
        <Section title="Appearance" note="Stored in this browser.">
          <ThemeChoice />
        </Section>
        <Section title="Sign out" note="Ends the session in this browser.">
          <Button icon="signout" onClick={endSession}>
            Sign out
          </Button>
        </Section>
      </div>
    </Page>
  );
}
