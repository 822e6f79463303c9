// The head of the page: views, figures of the whole, language, and how old everything is.

import {h} from "./element.js";
import {address} from "./route.js";
import {NAMES, clock, gib, number, speaks, t} from "./text.js";

const TABS = [["nodes", ["nodes", "node"]], ["pods", ["pods", "pod"]], ["pending", ["pending"]], ["moves", ["moves"]], ["decisions", ["decisions"]]];

export function header({view, summary, state, at, paused}) {
  const when = at ? t(state === "stale" ? "staleSince" : paused ? "paused" : "updated", {time: clock(at)}) : t("loading");
  return [h("div.top", {"data-key": "top"}, h("h1", {}, "Dragoman"),
      h("div.tools", {},
        h("span.live" + (state === "stale" ? ".stale" : paused ? ".paused" : ""), {id: "live"}, when),
        h("button", {type: "button", "data-action": "pause", "aria-pressed": String(paused)}, t(paused ? "resume" : "pause")),
        h("label", {}, h("span.hidden", {}, t("language")), language()))),
    summary ? figures(summary) : null,
    h("nav.tabs", {"aria-label": t("views"), "data-key": "tabs"}, TABS.filter(([name]) => name !== "moves" || summary?.moves).map(([name, views]) =>
      h("a", {href: address(name), "data-key": name, "aria-current": views.includes(view) ? "page" : null}, t(name))))];
}

function language() {
  const choice = h("select", {"data-action": "language"}, Object.entries(NAMES).map(([code, name]) => h("option", {value: code, lang: code, selected: code === speaks()}, name)));
  choice.value = speaks();
  return choice;
}

function figures(summary) {
  const percent = summary.memoryMiB ? Math.round(100 * summary.grantedMiB / summary.memoryMiB) : 0;
  const link = (count, key, values) => count ? [" · ", h("a", {href: address("nodes", "", {health: "problems"})}, t(key, values))] : null;
  return h("p.sum", {"data-key": "sum", id: "sum"}, t("summary", {nodes: number(summary.nodes), cards: number(summary.cards),
      pods: number(summary.pods), granted: gib(summary.grantedMiB), memory: gib(summary.memoryMiB), percent}),
    link(summary.nodesWithProblems, "troubled", {nodes: number(summary.nodesWithProblems)}),
    link(summary.unhealthyCards, "sickCards", {cards: number(summary.unhealthyCards)}));
}
