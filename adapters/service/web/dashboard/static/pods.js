// Pods with cards, pods that wait for cards, and one pod with its explanation.

import {swatch} from "./bars.js";
import {decisionTable, replica} from "./decisions.js";
import {h} from "./element.js";
import {plan} from "./moves.js";
import {holders, users} from "./nodes.js";
import {facet, field, filters, heading, held, nodeLink, note, pages, podLink, said, since, table} from "./parts.js";
import {gib, moment, number, t} from "./text.js";
import * as used from "./used.js";

export const LIMIT = 50;

export const question = ({q = "", namespace = "", dialect = "", offset = ""}) =>
  ({q, offset, limit: LIMIT, ...(namespace && {namespace}), ...(dialect && {dialect})});

export const pendingQuestion = parameters => ({...question(parameters), ...(parameters.cause && {cause: parameters.cause})});

/** The filters of a list, with how many rows of the list have each value. */
const form = (parameters, found, hint) => filters(
  field("q", t("search"), parameters, {type: "search", placeholder: hint, wide: true}),
  field("namespace", t("namespace"), parameters, {options: facet(found.namespaces), small: true}),
  field("dialect", t("dialect"), parameters, {options: facet(found.dialects), small: true}),
  ...(found.causes ? [field("cause", t("reason"), parameters, {options: facet(found.causes), small: true})] : []));

/** What the ShareQuota of the chosen namespace limits. */
function quota({quota: limits}) {
  if (!limits) return null;
  const amount = (key, value) => key === "memoryMiB" ? gib(value) : key === "compute" ? `${value}%` : value;
  const names = {cards: t("cards"), memoryMiB: t("memory"), compute: t("compute")};
  const parts = Object.entries(limits).map(([key, {used, limit}]) =>
    t("quotaPart", {name: names[key], used: amount(key, used), limit: amount(key, limit)}));
  return h("p", {"data-key": "quota"}, t("quota"), ": ", parts.join(", "));
}

export function list(found, parameters, summary) {
  return [heading(t("pods")), form(parameters, found, t("searchPods")), quota(found), pages("pods", parameters, found, LIMIT),
    found.rows.length ? h("section.panel", {"data-key": "rows"}, holders(found.rows)) : note(t(summary.pods ? "nothingFound" : "noPods"))];
}

export function pending(found, parameters) {
  const some = name => found.rows.some(row => row[name]);
  const rows = found.rows.map(row => ({key: row.pod, cells: [podLink(row.pod), since(row.since),
    row.dialect ? h("span.near", {}, swatch(row.dialect), row.dialect) : h("span.bad", {}, t("invalid")),
    h("span.near", {}, row.scheduler), request(row), row.priority ? String(row.priority) : "", row.reason ? said(row.reason) : h("span.dim", {}, t("notAsked")), held(row.checked)]}));
  return [heading(t("pending")), form(parameters, found, t("searchPending")), quota(found), pages("pending", parameters, found, LIMIT),
    rows.length ? h("section.panel", {"data-key": "rows"}, table(t("pending"), [[t("pod")], some("since") ? [t("age")] : null, [t("dialect")], [t("scheduler")], [t("request")],
        some("priority") ? [t("priority"), "num"] : null, [t("reason")], [t("checked")]], rows))
      : note(t(parameters.q || parameters.namespace || parameters.dialect || parameters.cause ? "nothingFound" : "noPending"))];
}

/** What a pod asks for: devices of a plugin by their name, else shares of cards. */
function request({containers, devices}) {
  const named = Object.entries(devices);
  return named.length ? named.map(([name, count]) => `${count} ${name}`).join(", ") : containers.map(container).join("; ");
}

function container(each) {
  const whole = each.exclusive && each.memoryPercent === 100;
  const memory = whole ? t("whole") : each.memoryMiB === null ? t("percentMemory", {percent: each.memoryPercent}) : gib(each.memoryMiB);
  const compute = each.compute && !whole ? `, ${t("percentCompute", {percent: each.compute})}` : "";
  return t("requestOf", {cards: each.cards, memory: memory + compute});
}

function allocation(each, name) {
  const some = test => each.grants.some(test);
  const heads = [[t("container")], [t("card")], [t("uuid")], [t("memory"), "num"], some(grant => grant.compute) ? [t("computeHead"), "num"] : null,
    some(grant => grant.exclusive || grant.profile) ? [t("share")] : null];
  const grants = each.grants.map((grant, place) => ({key: `${place}`, cells: [grant.container || t("everyContainer"),
    grant.index === null ? "?" : "#" + grant.index, h("span.long", {}, grant.card), gib(grant.memoryMiB), grant.compute ? `${grant.compute}%` : "",
    [grant.exclusive ? t("exclusive") : "", grant.profile ? t("slice", {profile: grant.profile}) : ""].filter(Boolean).join(", ")]}));
  const devices = Object.entries(each.devices).map(([resource, count]) => `${count} ${resource}`).join(", ");
  const fact = (label, ...value) => [h("dt", {}, t(label)), h("dd.long", {}, value)];
  return h("section.panel", {"data-key": each.node}, h("dl", {}, fact("node", nodeLink(each.node)),
    each.dialect ? fact("dialect", swatch(each.dialect), each.dialect) : null, devices ? fact("devices", devices, h("span.dim", {}, " ", t("kubeletKnows"))) : null,
    each.dialect === "dra" ? [fact("pod", podLink(each.pod), users(each))] : fact("priority", String(each.priority)), devices ? null : fact("state", t(each.reserved ? "reserved" : "committed")), fact("uid", each.uid),
    used.asks() && !devices ? fact("used", used.words(used.ofPod(each.node, name))) : null),
    each.unread ? h("p.bad", {}, t("recordProblem") + ": ", said(each.unread)) : null,
    each.releaseBy ? h("p", {}, t("releaseBy", {time: moment(each.releaseBy * 1000)})) : null,
    grants.length ? table(t("allocation"), heads, grants) : null,
    devices ? null : h("p.dim", {}, t(used.asks() ? "usedSource" : "usedUnknown")));
}

/** One pod; `explained` is null until the service has evaluated it. */
export function one(pod, explained) {
  const {waiting, answer, allocations} = pod;
  return [heading(pod.pod), waiting ? [h("div.two", {"data-key": "waiting"}, asks(waiting, answer), remedies(explained)),
      pod.rows?.length ? h("div", {"data-key": "plans"}, h("h3", {}, t("moves")), pod.rows.map(plan)) : null, nodes(pod, explained)] : null,
    allocations.length ? [h("h3", {}, t("allocation")), allocations.map(each => allocation(each, pod.pod))] : waiting ? null : h("p.dim", {}, t("noAllocation")),
    h("h3", {}, t("decisions")), h("section.panel", {"data-key": "decisions"}, decisionTable(pod.decisions), replica(pod))];
}

function asks(waiting, answer) {
  const fact = (label, ...value) => [h("dt", {}, t(label)), h("dd.long", {}, value)];
  return h("section.panel", {"data-key": "asks"}, h("h3", {}, t("asksFor")), h("dl", {}, fact("request", waiting.valid ? request(waiting) : t("invalid")),
    waiting.since ? fact("waitsSince", since(waiting.since)) : null, waiting.dialect ? fact("dialect", swatch(waiting.dialect), waiting.dialect) : null,
    fact("scheduler", waiting.scheduler), fact("priority", String(waiting.priority)), fact("uid", waiting.uid),
    fact("reason", waiting.reason ? said(waiting.reason) : t("notAsked"), " ", answer ? held(answer.checked) : "")));
}

/** What would make it fit, by the service's own evaluation. */
function remedies(found) {
  const lines = found?.remedies ?? [];
  return h("section.panel", {"data-key": "remedies"}, h("h3", {}, t("wouldFit")),
    !found ? h("p.dim", {}, t("loading")) : !lines.length ? h("p", {}, said(found.problem ?? found.summary))
      : h("ul.remedies", {}, lines.map(text => h("li", {}, said(text)))),
    found?.plan ? h("p", {}, t("planBy"), " ", h("code", {}, found.plan)) : null);
}

function nodes(pod, explained) {
  return h("section.panel", {"data-key": "evaluated"}, h("h3", {}, t("explanation")),
    explained ? explanation(explained) : h("p.dim", {}, t("loading")),
    h("p", {"data-key": "explain"}, h("button", {type: "button", "data-action": "explain"}, t("explain"))));
}

function explanation(found) {
  if (found.problem) return h("div.note.error", {"data-key": "explained", role: "alert"}, said(found.problem));
  if (!found.dialect) return h("p", {"data-key": "explained"}, said(found.summary));
  const rows = found.groups.map(group => ({key: group.text, cells: [number(group.nodes), said(group.text),
    h("span", {}, group.examples.map((name, place) => [place ? ", " : "", nodeLink(name)]), group.nodes > group.examples.length ? ", …" : "")]}));
  return h("div", {"data-key": "explained"},
    rows.length ? null : h("p", {}, said(found.summary)),
    found.fits.length ? h("p", {}, found.fits.map((name, place) => [place ? ", " : "", nodeLink(name)]), found.fitting > found.fits.length ? ", …" : "") : null,
    found.notes.map(text => h("p.dim", {}, said(text))),
    rows.length ? [h("p", {}, t("reasonsCount", {nodes: number(found.rejected), reasons: number(rows.length)})),
      found.preemption ? h("p", {}, t("mayPreempt", {count: number(found.preemption)})) : null,
      table(t("reason"), [[t("rejectedBy"), "num"], [t("reason")], [t("examples")]], rows)] : null);
}
