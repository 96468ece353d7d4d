import { Page } from "../../shell/page.tsx";

export function Screen() {
  return <Page title="Tollgate">{null}</Page>;
}
