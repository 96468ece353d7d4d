import { Icon } from "../parts/icon.tsx";
import { isOperator } from "../shell/api.ts";
import { href } from "../shell/router.ts";
import { FAMILY_GUIDES, guideGroups } from "./families.ts";
import { DocsPage } from "./page.tsx";

/** A guide, as the index lists it. */
export interface Guide {
  name: string;
  title: string;
  headings: string[];
}

export function guideTitle(guides: Guide[], name: string): string {
  return guides.find((one) => one.name === name)?.title ?? name;
}

/** A sentence that leads to a guide. */
export function GuideLink(props: { name: string; guides: Guide[] }) {
  if (!props.guides.some((one) => one.name === props.name)) return null;
  return (
    <>
      Guide: <a href={href(`/guides/${props.name}`)}>{guideTitle(props.guides, props.name)}</a>.
    </>
  );
}

/** Links to the guides of a family of operations. */
export function FamilyGuides(props: { family: string; guides: Guide[] }) {
  const names = (FAMILY_GUIDES[props.family] ?? []).filter((name) => props.guides.some((one) => one.name === name));
  if (names.length === 0) return null;
  return (
    <p class="ref-guides">
      <Icon name="guide" class="muted" />
      <span class="sr">Guides: </span>
      {names.map((name) => (
        <a key={name} href={href(`/guides/${name}`)}>
          {guideTitle(props.guides, name)}
        </a>
      ))}
    </p>
  );
}

/** All guides, by group. */
export function GuidesPage(props: { guides: Guide[] }) {
  const groups = [...guideGroups(isOperator), ...(isOperator ? [] : guideGroups(true))];
  const seen = new Set<string>();
  return (
    <DocsPage title="Guides">
      <div class="ref-wide">
        {groups.map((group) => {
          const names = group.guides.filter((name) => !seen.has(name) && props.guides.some((one) => one.name === name));
          for (const name of names) seen.add(name);
          if (names.length === 0) return null;
          return (
            <section key={group.name}>
              <h2 class="ref-h">{group.name}</h2>
              <ul class="ref-cards">
                {names.map((name) => (
                  <li key={name}>
                    <a class="ref-card" href={href(`/guides/${name}`)}>
                      <b>{guideTitle(props.guides, name)}</b>
                      <span class="muted t12">
                        {props.guides
                          .find((one) => one.name === name)
                          ?.headings.slice(0, 4)
                          .join(", ")}
                      </span>
                    </a>
                  </li>
                ))}
              </ul>
            </section>
          );
        })}
      </div>
    </DocsPage>
  );
}
