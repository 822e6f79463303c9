// Pods with cards, pods that wait for cards, and one pod with its explanation.

import {swatch} from "./bars.js";
import {decisionTable} from "./decisions.js";
import {h} from "./element.js";
import {heading, holders} from "./nodes.js";
import {facet, field, filters, held, nodeLink, note, pages, podLink, said, table} from "./parts.js";
import {gib, moment, number, t} from "./text.js";
import * as used from "./used.js";

export const LIMIT = 50;

export const question = ({q = "", namespace = "", dialect = "", offset = ""}) =>
  ({q, offset, limit: LIMIT, ...(namespace && {namespace}), ...(dialect && {dialect})});

const form = (parameters, summary, hint) => filters(
  field("q", t("search"), parameters, {type: "search", placeholder: hint, wide: true}),
  field("namespace", t("namespace"), parameters, {options: facet(summary.namespaces)}),
  field("dialect", t("dialect"), parameters, {options: facet(summary.dialects)}));

/** What the ShareQuota of the chosen namespace limits. */
function quota({quota: limits}) {
  if (!limits) return null;
  const amount = (key, value) => key === "memoryMiB" ? `${gib(value)} GiB` : key === "compute" ? `${value}%` : value;
  const names = {cards: t("cards"), memoryMiB: t("memory"), compute: t("compute")};
  const parts = Object.entries(limits).map(([key, {used, limit}]) =>
    t("quotaPart", {name: names[key], used: amount(key, used), limit: amount(key, limit)}));
  return h("p", {"data-key": "quota"}, t("quota"), ": ", parts.join(", "));
}

export function list(found, parameters, summary) {
  return [heading(t("pods")), form(parameters, summary, t("searchPods")), quota(found), pages("pods", parameters, found, LIMIT),
    found.rows.length ? holders(found.rows) : note(t(summary.pods ? "nothingFound" : "noPods"))];
}

export function pending(found, parameters, summary) {
  const rows = found.rows.map(row => ({key: row.pod, cells: [podLink(row.pod),
    row.dialect ? h("span", {}, swatch(row.dialect), row.dialect) : h("span.bad", {}, t("invalid")),
    row.scheduler, row.containers.map(request).join("; "), row.reason ? said(row.reason) : h("span.dim", {}, t("notAsked")), held(row.checked)]}));
  return [heading(t("pending")), form(parameters, summary, t("searchPending")), quota(found), pages("pending", parameters, found, LIMIT),
    rows.length ? table(t("pending"), [[t("pod")], [t("dialect")], [t("scheduler")], [t("request")], [t("reason")], [t("checked")]], rows)
      : note(t(parameters.q || parameters.namespace || parameters.dialect ? "nothingFound" : "noPending"))];
}

function request(container) {
  const memory = container.exclusive ? t("whole")
    : container.memoryMiB === null ? t("percentMemory", {percent: container.memoryPercent}) : `${gib(container.memoryMiB)} GiB`;
  const compute = container.compute && !container.exclusive ? `, ${t("percentCompute", {percent: container.compute})}` : "";
  return t("requestOf", {cards: container.cards, memory: memory + compute});
}

function allocation(each, name) {
  const heads = [[t("container")], [t("card")], [t("uuid")], [t("memory"), "num"], [t("compute"), "num"], [t("share")]];
  const grants = each.grants.map((grant, place) => ({key: `${place}`, cells: [grant.container || t("everyContainer"),
    grant.index === null ? "?" : "#" + grant.index, h("span.long", {}, grant.card), `${gib(grant.memoryMiB)} GiB`, `${grant.compute}%`,
    [grant.exclusive ? t("exclusive") : "", grant.profile ? t("slice", {profile: grant.profile}) : ""].filter(Boolean).join(", ")]}));
  return h("section", {"data-key": each.node}, h("dl", {},
    h("dt", {}, t("node")), h("dd", {}, nodeLink(each.node)),
    h("dt", {}, t("dialect")), h("dd", {}, swatch(each.dialect), each.dialect),
    h("dt", {}, t("priority")), h("dd", {}, String(each.priority)),
    h("dt", {}, t("state")), h("dd", {}, t(each.reserved ? "reserved" : "committed")),
    h("dt", {}, t("uuid")), h("dd.long", {}, each.uid),
    used.asks() ? [h("dt", {}, t("used")), h("dd", {}, used.words(used.ofPod(each.node, name)))] : null),
    each.unread ? h("p.bad", {}, t("recordProblem") + ": ", said(each.unread)) : null,
    each.releaseBy ? h("p", {}, t("releaseBy", {time: moment(each.releaseBy * 1000)})) : null,
    grants.length ? table(t("allocation"), heads, grants) : null);
}

/** One pod; `explained` is null until a person asks for it. */
export function one(pod, explained) {
  return [heading(pod.pod), h("h3", {}, t("allocation")),
    pod.allocations.length ? pod.allocations.map(each => allocation(each, pod.pod)) : h("p.dim", {}, t("noAllocation")),
    pod.allocations.length ? h("p.dim", {}, t(used.asks() ? "usedSource" : "usedUnknown")) : null,
    h("h3", {}, t("explanation")), h("p", {"data-key": "explain"}, h("button", {type: "button", "data-action": "explain"}, t("explain"))),
    explained ? explanation(explained)
      : pod.answer ? h("p", {"data-key": "answer"}, said(pod.answer.summary), " ", held(pod.answer.checked)) : null,
    h("h3", {}, t("decisions")), decisionTable(pod.decisions)];
}

function explanation(found) {
  if (found.problem) return h("div.note.error", {"data-key": "explained", role: "alert"}, said(found.problem));
  if (!found.dialect) return h("p", {"data-key": "explained"}, said(found.summary));
  const rows = found.groups.map(group => ({key: group.text, cells: [number(group.nodes), said(group.text),
    h("span", {}, group.examples.map((name, place) => [place ? ", " : "", nodeLink(name)]), group.nodes > group.examples.length ? ", …" : "")]}));
  return h("section", {"data-key": "explained"},
    h("p", {}, said(found.summary)),
    found.fits.length ? h("p", {}, found.fits.map((name, place) => [place ? ", " : "", nodeLink(name)]), found.fitting > found.fits.length ? ", …" : "") : null,
    found.notes.map(text => h("p.dim", {}, said(text))),
    rows.length ? [h("p", {}, t("reasonsCount", {nodes: number(found.rejected), reasons: number(rows.length)})),
      found.preemption ? h("p", {}, t("mayPreempt", {count: number(found.preemption)})) : null,
      table(t("reason"), [[t("rejectedBy"), "num"], [t("reason")], [t("examples")]], rows)] : null);
}
