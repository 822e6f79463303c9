// The list of nodes, and one node.

import {cards, facts, legend, swatch} from "./bars.js";
import {h} from "./element.js";
import {decisionTable, replica} from "./decisions.js";
import {facet, field, filters, heading, nodeLink, note, numbers, pages, podLink, said, table} from "./parts.js";
import {address} from "./route.js";
import {gib, number, ofGib, t} from "./text.js";
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
  const states = [["", t("any")], ["problems", t("withProblems")], ["healthy", t("withoutProblems")], ["full", t("withFull")], ["idle", t("withIdle")]];
  const form = filters(
    field("q", t("search"), parameters, {type: "search", placeholder: t("searchNodes"), wide: true}),
    field("model", t("model"), parameters, {options: facet(summary.models)}),
    field("namespace", t("namespace"), parameters, {options: facet(summary.namespaces)}),
    field("dialect", t("dialect"), parameters, {options: facet(summary.dialects)}),
    field("health", t("health"), parameters, {options: states}),
    field("free", t("free"), parameters, {type: "number", min: "0", step: "any"}),
    field("sort", t("sort"), parameters, {options: sorts}),
    field("order", t("order"), parameters, {options: [["", t("normal")], ["reverse", t("reverse")]]}));
  return [heading(t("nodes")), form, legend(found.rows), pages("nodes", parameters, found, LIMIT),
    found.rows.length ? h("div.nodes", {"data-key": "rows"}, found.rows.map(panel)) : note(h("p", {}, t(summary.nodes ? "nothing" : "empty"))),
    found.rows.length < found.total ? h("div", {"data-key": "below"}, pages("nodes", parameters, found, LIMIT, null)) : null];
}

export function one(node) {
  const uuids = node.cards.length ? table(t("cards"), [["#", "num"], [t("uuid")], [t("model")], [t("mode")], [t("slots"), "num"], [t("memory"), "num"], used.asks() ? [t("used"), "num"] : null],
    node.cards.map(card => ({key: card.uuid, cells: [String(card.index), h("span.long", {}, card.uuid), card.model, card.mode,
      `${card.usedSlots}/${card.slots}`, t("ofGib", ofGib(card.grantedMiB, card.memoryMiB)), inUse(node.name, card)]}))) : null;
  return [heading(node.name), h("p", {"data-key": "back"}, h("a", {href: address("nodes")}, "← " + t("back"))),
    h("div.node" + sick(node), {"data-key": "panel"}, node.readable ? facts(node) : h("p.bad", {}, t("unreadable")), problems(node, false), cards(node)),
    legend([node]), node.cards.length && node.holders.length ? h("p", {"data-key": "emptied"}, t("toEmpty", {pods: number(node.holders.length)}), " ", h("code", {}, "dragoman defrag --free-nodes 1")) : null,
    h("h3", {}, t("holders")), h("section.panel", {"data-key": "holders"}, node.holders.length ? holders(node.holders) : h("p.dim", {}, t("noPods"))),
    uuids && [h("h3", {}, t("cards")), h("section.panel", {"data-key": "uuids"}, uuids, h("p.dim", {}, t(used.asks() ? "usedSource" : "usedUnknown")))],
    h("h3", {}, t("decisions")), h("section.panel", {"data-key": "decisions"}, decisionTable(node.decisions), replica(node))];
}

function inUse(node, card) {
  const memory = used.ofCard(node, card.uuid), compute = used.computeOf(node, card.uuid);
  const parts = [memory === null ? "" : gib(memory), compute === null ? "" : t("percentCompute", {percent: compute})];
  return parts.filter(Boolean).join(", ") || "—";
}

/** What a pod has of a node: its cards, or devices of a plugin. */
const has = row => row.grants.length ? numbers(row.grants.map(grant => grant.index ?? "?"))
  : Object.entries(row.devices).map(([name, count]) => `${count} ${name}`).join(", ");

export function holders(rows) {
  const some = name => rows.some(row => row[name]);
  return table(t("holders"), [[t("pod")], some("dialect") ? [t("dialect")] : null, [t("node")], [t("cards")], some("memoryMiB") ? [t("memory"), "num"] : null,
      used.asks() ? [t("used"), "num"] : null, some("compute") ? [t("computeHead"), "num"] : null, [t("state")]],
    rows.map(row => ({key: row.pod + " " + row.node, cells: [[podLink(row.pod), users(row)], h("span.near", {}, swatch(row.dialect), row.dialect), nodeLink(row.node),
      has(row), row.memoryMiB ? gib(row.memoryMiB) : "", ofHolder(row), row.compute ? `${row.compute}%` : "",
      row.unread ? said(row.unread, "span.bad") : t(row.reserved ? "reserved" : row.grants.length ? "committed" : "byPlugin")]})));
}

/** Which pods use a claim. */
export const users = row => row.consumers?.length ? h("div.dim", {}, t("claimOf"), " ", row.consumers.map((name, place) => [place ? ", " : "", podLink(name)])) : null;

function ofHolder(row) {
  const mib = used.ofPod(row.node, row.pod);
  return mib === null ? "—" : gib(mib);
}
