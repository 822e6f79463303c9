// The list of nodes, and one node.

import {cards, facts, legend, swatch} from "./bars.js";
import {h} from "./element.js";
import {decisionTable} from "./decisions.js";
import {facet, field, filters, nodeLink, note, pages, podLink, said, table} from "./parts.js";
import {address} from "./route.js";
import {gib, number, t} from "./text.js";
import * as used from "./used.js";

export const LIMIT = 25;

/** The question that the address asks. */
export function question({q = "", model = "", namespace = "", dialect = "", health = "", free = "", sort = "", order = "", offset = "", node = ""}) {
  const gibs = Number.parseFloat(free);
  return {q, model, namespace, dialect, health, sort, order, offset, node, limit: LIMIT,
          freeMiB: Number.isFinite(gibs) && gibs > 0 ? Math.round(gibs * 1024) : ""};
}

const problems = (node, more) => node.problems.length ? h("ul.problems", {},
  node.problems.map(text => h("li", {}, said(text, "span", node.cards))),
  more && node.problemCount > node.problems.length
    ? h("li", {}, t("moreProblems", {count: number(node.problemCount - node.problems.length)})) : null) : null;

const sick = node => node.problemCount || node.unhealthy ? ".sick" : "";

function panel(node) {
  return h("article.node" + sick(node), {"data-key": node.name, "data-node": node.name, "aria-label": node.name},
    h("h3", {}, nodeLink(node.name)), node.readable ? facts(node) : h("p.bad", {}, t("unreadable")),
    problems(node, true), cards(node));
}

export function list(found, parameters, summary) {
  const sorts = [["", t("problems")], ["name", t("name")], ["free", t("freeMemory")], ["granted", t("granted")],
                 ["compute", t("compute")], ["pods", t("podCount")]];
  const form = filters(
    field("q", t("search"), parameters, {type: "search", placeholder: t("searchNodes"), wide: true}),
    field("model", t("model"), parameters, {options: facet(summary.models)}),
    field("namespace", t("namespace"), parameters, {options: facet(summary.namespaces)}),
    field("dialect", t("dialect"), parameters, {options: facet(summary.dialects)}),
    field("health", t("health"), parameters, {options: [["", t("any")], ["problems", t("withProblems")], ["healthy", t("healthy")]]}),
    field("free", t("free"), parameters, {type: "number", min: "0", step: "any"}),
    field("sort", t("sort"), parameters, {options: sorts}),
    field("order", t("order"), parameters, {options: [["", t("normal")], ["reverse", t("reverse")]]}));
  if (!summary.nodes) return [heading(t("nodes")), empty()];
  return [heading(t("nodes")), form, legend(), pages("nodes", parameters, found, LIMIT),
    found.rows.length ? h("div", {"data-key": "rows"}, found.rows.map(panel)) : note(h("p", {}, t("nothing"))),
    found.rows.length < found.total ? h("div", {"data-key": "below"}, pages("nodes", parameters, found, LIMIT, null)) : null];
}

export const heading = text => h("h2", {tabindex: "-1", "data-key": "heading", id: "heading"}, text);

const empty = () => note(h("strong", {}, t("empty")), h("ul", {}, h("li", {}, t("empty1")), h("li", {}, t("empty2")), h("li", {}, t("empty3"))));

export function one(node) {
  const uuids = table(t("cards"), [["#", "num"], [t("uuid")], [t("model")], [t("mode")], [t("slots"), "num"], [t("memory"), "num"], [t("used"), "num"]],
    node.cards.map(card => ({key: card.uuid, cells: [String(card.index), h("span.long", {}, card.uuid), card.model, card.mode,
      `${card.usedSlots}/${card.slots}`, t("ofGib", {granted: gib(card.grantedMiB), memory: gib(card.memoryMiB)}), inUse(node.name, card)]})));
  return [heading(node.name), h("p", {"data-key": "back"}, h("a", {href: address("nodes")}, "← " + t("back"))),
    h("div.node" + sick(node), {"data-key": "panel"}, node.readable ? facts(node) : h("p.bad", {}, t("unreadable")), problems(node, false), cards(node)),
    legend(), uuids, h("p.dim", {}, t(used.asks() ? "usedSource" : "usedUnknown")),
    h("h3", {}, t("holders")), node.holders.length ? holders(node.holders) : h("p.dim", {}, t("noPods")),
    h("h3", {}, t("decisions")), decisionTable(node.decisions)];
}

function inUse(node, card) {
  const memory = used.ofCard(node, card.uuid), compute = used.computeOf(node, card.uuid);
  const parts = [memory === null ? "" : `${gib(memory)} GiB`, compute === null ? "" : t("percentCompute", {percent: compute})];
  return parts.filter(Boolean).join(", ") || "—";
}

export function holders(rows) {
  return table(t("holders"), [[t("pod")], [t("dialect")], [t("node")], [t("cards")], [t("memory"), "num"], [t("used"), "num"], [t("compute"), "num"], [t("state")]],
    rows.map(row => ({key: row.pod + " " + row.node, cells: [podLink(row.pod), h("span", {}, swatch(row.dialect), row.dialect), nodeLink(row.node),
      [...new Set(row.grants.map(grant => "#" + (grant.index ?? grant.card)))].join(", "), `${gib(row.memoryMiB)} GiB`, ofHolder(row), `${row.compute}%`,
      row.unread ? said(row.unread, "span.bad") : t(row.reserved ? "reserved" : "committed")]})));
}

function ofHolder(row) {
  const mib = used.ofPod(row.node, row.pod);
  return mib === null ? "—" : `${gib(mib)} GiB`;
}
