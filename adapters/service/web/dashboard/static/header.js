// The head of the page: views, how much there is, language, colors, and how old everything is.

import {h} from "./element.js";
import {PHONE} from "./parts.js";
import {address} from "./route.js";
import {NAMES, clock, number, speaks, t} from "./text.js";

const TABS = [["overview", ["overview"]], ["nodes", ["nodes", "node"]], ["pods", ["pods", "pod"]], ["pending", ["pending"]], ["moves", ["moves"]], ["decisions", ["decisions"]]];

export function header({view, summary, state, at, paused, dark}) {
  const when = at ? t(state === "stale" ? "staleSince" : paused ? "paused" : "updated", {time: clock(at)}) : t("loading");
  return [h("h1", {"data-key": "brand"}, "Dragoman"),
    h("nav.tabs", {"aria-label": t("views"), "data-key": "tabs"}, TABS.filter(([name]) => name !== "moves" || summary?.moves).map(([name, views]) =>
      h("a", {href: address(name), "data-key": name, "aria-current": views.includes(view) ? "page" : null}, t(name), count(name, summary)))),
    h("div.tools", {"data-key": "tools"},
      h("p.sum", {id: "sum"}, summary ? t("summary", {nodes: number(summary.nodes), cards: number(summary.cards)}) : ""),
      h("span.live" + (state === "stale" ? ".stale" : paused ? ".paused" : ""), {id: "live", title: when}, PHONE.matches && at && state === "live" && !paused ? clock(at) : when),
      h("button", {type: "button", "data-action": "pause", "aria-pressed": String(paused)}, t(paused ? "resume" : "pause")),
      h("button", {type: "button", "data-action": "theme", "aria-label": t("theme"), title: t("theme"), "aria-pressed": String(dark)}, "◐"),
      h("label", {}, h("span.hidden", {}, t("language")), language()))];
}

/** How many pods wait, beside the name of their list. */
const count = (name, summary) => name === "pending" ? h("span.count", {}, summary?.pending ? ` ${number(summary.pending)}` : "") : null;

function language() {
  const choice = h("select", {"data-action": "language"}, Object.entries(NAMES).map(([code, name]) => h("option", {value: code, lang: code, selected: code === speaks()}, name)));
  choice.value = speaks();
  return choice;
}
