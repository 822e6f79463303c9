// The first screen: totals, the map of all cards, what waits and why, problems, namespaces, free shares.

import {ask} from "./api.js";
import {color} from "./bars.js";
import {h} from "./element.js";
import {WRONG, current, enter, heat, paint, point, walk, words} from "./heat.js";
import {field, held, nodeLink, note, podLink, said} from "./parts.js";
import {address, go} from "./route.js";
import {age, gib, number, ofGib, percent, t} from "./text.js";
import {onSystem} from "./theme.js";
import * as used from "./used.js";

const MEASURED = 200; // nodes whose agents one question may ask

/** The nodes whose use is asked for. */
export function inView(found) {
  const names = found.groups.filter(group => !group.served).flatMap(group => group.nodes.map(([name]) => name));
  return names.length <= MEASURED ? names : [];
}

const total = (label, value, more, href, cls = "") => h("a" + cls, {href}, h("small", {}, label), h("strong", {}, value), h("em", {}, more));

function totals(found, summary) {
  const {waiting} = found, wrong = summary.nodesWithProblems, served = found.groups.filter(group => group.served);
  const devices = served.length ? t("devicesInUse", {used: number(sum(served, "inUse")), all: number(sum(served, "cards"))}) : "";
  const granted = summary.memoryMiB ? t("ofGib", ofGib(summary.grantedMiB, summary.memoryMiB)) : "";
  return h("div.panel.totals", {"data-key": "totals"},
    total(t("grantedTotal"), summary.memoryMiB ? percent(summary.grantedMiB, summary.memoryMiB) : "–", [granted, devices].filter(Boolean).join(" · "), address("nodes", "", {sort: "granted"})),
    total(t("wholeFree"), number(found.idle), t("ofCards", {cards: number(summary.cards)}), address("nodes", "", {health: "idle"})),
    total(t("largestFree"), gib(found.largestMiB), t("onNodes", {nodes: number(found.largestNodes)}), address("nodes", "", {sort: "free"})),
    total(t("waiting"), number(waiting.pods), waiting.oldest ? t("oldest", {age: age(waiting.oldest)}) : t(waiting.pods ? "podsUnit" : "nothingWaits"), address("pending")),
    total(t("wrongNodes"), number(wrong), [t("ofNodes", {nodes: number(summary.nodes)}), summary.unhealthyCards ? t("sickCards", {cards: number(summary.unhealthyCards)}) : ""].filter(Boolean).join(" · "),
      address("nodes", "", {health: "problems"}), wrong ? ".alarm" : ""));
}

const sum = (rows, name) => rows.reduce((all, row) => all + row[name], 0);

/** The filters of a group: several models and resources are found by the first one's name. */
const ofGroup = ({model, served}) => !model ? {health: "problems"} : served || model.includes(", ") ? {q: model.split(", ")[0]} : {model};

export const question = ({color: shown = ""}) => shown ? {color: shown} : {};

/** Hues of names, far from red; their contrast to a free square is 3 in light and dark. */
const HUES = [195, 330, 90, 265, 140, 60, 300, 230];

/** What each way to color a square needs: marks by card, and layers of [color, its part of a square, its text]. */
function shades(found, chosen) {
  const names = found.names.map((name, at) => [chosen === "dialect" ? color(name) : `oklch(.59 .12 ${HUES[at]}deg)`, (state, tenths, mark) => mark === String(at) ? tenths : 0, name]);
  const bad = state => WRONG.includes(state);
  return {
    granted: {marks: () => "", layers: [["var(--granted)", (state, tenths) => state === "b" ? 0 : tenths], ["var(--unknown)", (state, tenths) => state === "b" ? tenths : 0]]},
    used: {marks: used.ninths, layers: [["var(--granted)", (state, tenths, mark) => Number(mark) || 0, t("isUsed")], ["var(--unknown)", (state, tenths, mark) => mark === "-" ? 9 : 0, t("usedNotKnown")]]},
    health: {marks: () => "", layers: [["var(--granted)", state => bad(state) ? 0 : 9, t("withoutProblems")], ["var(--bad)", state => bad(state) ? 9 : 0]]},
    names: {marks: name => found.owners[name] ?? "", layers: [...names, ["var(--unknown)", (state, tenths, mark) => mark === "-" ? tenths : 0, t("others")]]},
  }[chosen === "dialect" || chosen === "namespace" ? "names" : chosen || "granted"];
}

function map(found, width, parameters) {
  const choices = [["", t("granted")], ...["used", "dialect", "namespace", "health"].map(name => [name, t(name)])].filter(([name]) => name !== "used" || used.asks() && inView(found).length);
  const by = choices.some(([name]) => name === parameters.color) ? parameters.color : "", {marks, layers} = shades(found, by);
  const seen = found.groups.map(group => ({...group, nodes: group.nodes.map(each => [...each, marks(each[0])])}));
  const canvases = heat(seen, width, innerWidth > 760 ? Math.max(300, Math.min(innerHeight - 330, 620)) : 1200, layers, chosen);
  const sections = found.groups.map((group, place) => h("section", {"data-key": "group-" + place},
    h("div.head", {}, h("h3", {}, h("a", {href: address("nodes", "", ofGroup(group))}, group.model || t("unknownModel"))),
      h("span.dim", {}, t(!group.cards ? "nodesOnly" : group.served ? "groupDevices" : "groupFacts", words(group)))), canvases[place]));
  const states = new Set(found.groups.flatMap(group => group.nodes.flatMap(([, cells]) => [...cells].filter((_, place) => place % 2 === 0))));
  const has = letters => [...letters].some(letter => states.has(letter));
  const key = (cls, text) => h("li", {}, h("i" + cls, {"aria-hidden": "true"}), t(text));
  return h("section.panel.map", {"data-key": "map", "aria-label": t("map"), id: "map"}, h("div.groups", {}, sections),
    h("ul.keys", {"data-key": "keys"}, h("li", {"data-key": "color"}, h("form.filters", {}, field("color", t("colorBy"), parameters, {options: choices}))),
      has(".s") && by !== "health" ? key("", "isFree") : null,
      layers.map(([name, , text]) => text ? h("li", {}, h("i", {"aria-hidden": "true", style: {background: name}}), text) : null),
      has("s") && !by ? key(".part", "isGranted") : null, has("fpx") && !by ? key(".whole", "full") : null,
      has("x") ? key(".sole", "exclusiveWord") : null, has("obu") ? key(".wrong", "isWrong") : null),
    h("div.cell", {id: "cell", "data-key": "cell", role: "status"}, inspector()));
}

let details = null; // of the node that a person looks at
let asking = 0;

function chosen({name}) {
  if (details?.name !== name) details = null;
  draw();
  clearTimeout(asking);
  if (!details) asking = setTimeout(async () => {
    try {
      const {value} = await ask("node", {name});
      if (current()?.name === name) { details = value; draw(); }
    } catch { /* the next one may be answered */ }
  }, 80);
}

const draw = () => document.getElementById("cell")?.replaceChildren(...[inspector()].flat());

const STATES = {".": "idle", s: "shared", f: "full", x: "exclusiveWord", o: "isOver", b: "blocked", u: "unhealthyCard", p: "inUse"};

function inspector() {
  const found = current();
  if (!found) return h("p.dim", {}, t("mapHelp"));
  const whole = found.cards !== undefined, card = whole ? null : details?.cards[found.card];
  const state = whole ? details && !found.group.served ? t("nodeFacts", ofGib(details.grantedMiB, details.memoryMiB)) : ""
    : t(STATES[found.cells[2 * found.card]] ?? "unreadable");
  const shares = whole ? details?.holders ?? [] : card ? card.shares : details?.users ?? [];
  const amount = card?.shares.length ? t("ofGib", ofGib(card.grantedMiB, card.memoryMiB)) : "";
  return [h("p", {}, h("strong", {}, nodeLink(found.name)), h("span", {}, whole ? t("cardsOf", {cards: number(found.cards)}) : card ? `#${card.index}` : `${found.card + 1}/${found.cells.length / 2}`),
      h("span", {}, found.group.model), h("span", {}, [state, amount].filter(Boolean).join(", ")), card ? used.shown(used.ofCard(found.name, card.uuid)) : null),
    h("p", {}, details === null ? h("span.dim", {}, "…") : shares.map(each => h("span", {}, podLink(each.pod), " ",
      h("span.dim", {}, each.memoryMiB ? gib(each.memoryMiB) : Object.entries(each.devices ?? {}).map(([name, count]) => `${count} ${name}`).join(", ")))),
      found.group.served && shares.length ? h("span.dim", {}, t("kubeletKnows")) : null)];
}

const bar = (part, all) => h("span.bar", {"aria-hidden": "true"}, part ? h("i.plain", {style: {width: 100 * part / all + "%"}}) : null);

function waiting({causes, others}) {
  if (!causes.length) return null;
  return h("section.panel", {"data-key": "waiting"}, h("h3", {}, t("byReason")), h("ul.rows.text", {}, causes.map(each => h("li", {"data-key": each.cause},
    h("a", {href: address("pending", "", {cause: each.cause})}, said(each.cause)),
    h("span", {}, t("podsOf", {pods: number(each.pods)}), each.oldest ? [" ", h("span.dim", {}, age(each.oldest))] : null),
    h("span.more.dim", {}, t("example"), " ", podLink(each.example))))),
    others ? h("p.dim", {}, t("otherReasons", {pods: number(others)})) : null);
}

function problems(found, summary) {
  if (!found.problems.length) return null;
  const more = summary.nodesWithProblems - found.problems.length;
  return h("section.panel", {"data-key": "problems"}, h("h3", {}, t("problemsTotal")), h("ul.rows.text", {}, found.problems.map(each => h("li", {"data-key": each.node},
    h("span", {}, nodeLink(each.node), " ", each.text ? said(each.text, "span.bad", each.cards) : h("span.bad", {}, t("unhealthyCard")))))),
    more > 0 ? h("p", {}, h("a", {href: address("nodes", "", {health: "problems"})}, t("moreProblems", {count: number(more)}))) : null);
}

function namespaces({namespaces: rows}, summary) {
  if (!rows.length) return null;
  const most = Math.max(...rows.map(each => each.grantedMiB));
  return h("section.panel", {"data-key": "namespaces"}, h("h3", {}, t("namespaces")), h("ul.rows", {}, rows.map(each => h("li", {"data-key": each.name},
    h("a", {href: address(each.grantedMiB ? "pods" : "pending", "", {namespace: each.name}), translate: "no"}, each.name), bar(each.grantedMiB, most),
    h("span.num", {}, gib(each.grantedMiB), " ", h("span.dim", {}, percent(each.grantedMiB, summary.memoryMiB))),
    extra(each) ? h("span.more.dim", {}, extra(each)) : null))));
}

function extra({name, waiting: count}) {
  const mib = used.ofNamespace(name);
  return [mib === null ? "" : t("usedGib", {used: gib(mib)}), count ? t("waitingOf", {pods: number(count)}) : ""].filter(Boolean).join(" · ");
}

function free({free: rows}) {
  const top = rows.findLastIndex(each => each.cards), most = Math.max(...rows.map(each => each.cards));
  if (top < 0) return null;
  const label = (each, place) => place === 0 ? t("noFree") : place === top ? t("freeFrom", {from: gib(each.fromMiB)})
    : t("freeRange", {from: each.fromMiB / 1024, to: gib(rows[place + 1].fromMiB)});
  return h("section.panel", {"data-key": "free"}, h("h3", {}, t("freeShares")), h("ul.rows", {}, rows.slice(0, top + 1).map((each, place) => h("li", {"data-key": String(each.fromMiB)},
    h("a", {href: address("nodes", "", place ? {free: String(each.fromMiB / 1024)} : {health: "full"})}, label(each, place)), bar(each.cards, most),
    h("span.num", {}, t("cardsOf", {cards: number(each.cards)})))).reverse()),
    h("p.dim", {}, t("willFit"), " ", h("code", {}, "dragoman whatif --pods FILE")));
}

export function list(found, parameters, summary) {
  const heading = h("h2.hidden", {tabindex: "-1", "data-key": "heading", id: "heading"}, t("overview"));
  if (!summary.nodes) return [heading, note(h("strong", {}, t("empty")), h("ul", {}, ["empty1", "empty2", "empty3"].map(each => h("li", {}, t(each)))))];
  const main = document.getElementById("main"), inner = main.clientWidth - (innerWidth > 760 ? 56 : 28);
  const beside = innerWidth > 1180 ? Math.min(400, Math.max(300, inner / 4)) + 14 : 0;
  const width = Math.floor(inner - beside - (innerWidth > 760 ? 42 : 30));
  requestAnimationFrame(paint);
  return [heading, totals(found, summary), h("div.screen", {"data-key": "screen", style: {"--side": (beside ? beside - 14 : 400) + "px"}}, h("div", {}, map(found, width, parameters), h("div.two", {}, free(found), namespaces(found, summary))),
    h("div.side", {}, waiting(found.waiting), problems(found, summary)))];
}

const onMap = ({target}) => target.dataset?.map !== undefined;
const open = () => current() && go(address("node", current().name));
let tapped = null;
addEventListener("pointermove", event => { if (onMap(event) && event.pointerType !== "touch") point(event); });
addEventListener("focusin", event => { if (onMap(event) && event.target.matches(":focus-visible")) enter(event); });
addEventListener("click", event => {
  if (!onMap(event)) return;
  const before = current(), there = point(event), now = current();
  const again = before && now && before.name === now.name && before.card === now.card && tapped === now.name;
  tapped = now?.name;
  if (there && (event.pointerType !== "touch" || again)) open();
});
addEventListener("keydown", event => {
  if (!onMap(event) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter") open();
  else if (walk(event)) event.preventDefault();
});
onSystem(paint);
