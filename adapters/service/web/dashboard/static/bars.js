// Cards as bars, their shares as links, and the legend of all colors and patterns.

import {h} from "./element.js";
import {podLink} from "./parts.js";
import {gib, number, t} from "./text.js";
import * as used from "./used.js";

const DIALECTS = new Map(JSON.parse(document.getElementById("dialects").textContent).map(each => [each.name, each]));
const color = dialect => DIALECTS.get(dialect)?.color ?? "var(--unknown)";
const letter = dialect => DIALECTS.get(dialect)?.letter ?? "?";

const patterns = share => ["reserved", "blocked", "exclusive"].filter(each => share[each]).map(each => "." + each).join("");

function bar(card, inUse) {
  const blocker = card.shares.find(share => share.blocked);
  const words = [card.healthy ? "" : t("unhealthyCard"), blocker ? t("blockedBy", {pod: blocker.pod}) : "", card.over ? t("isOver") : ""];
  const label = t("barLabel", {index: card.index, granted: gib(card.grantedMiB), memory: gib(card.memoryMiB),
    compute: computeOf(card), count: number(card.shares.length), used: used.asks() ? ", " + used.words(inUse) : "", state: words.filter(Boolean).map(each => ", " + each).join("")});
  return h("span.bar" + (card.healthy ? "" : ".unhealthy") + (card.over ? ".over" : ""), {role: "img", "aria-label": label},
    card.shares.map(share => h("i" + patterns(share), {"data-key": share.pod, title: share.pod, style: {
      width: (share.blocked ? 100 : Math.min(100, 100 * share.memoryMiB / Math.max(1, card.memoryMiB))) + "%",
      "background-color": color(share.dialect)}})),
    inUse === null ? null : h("b", {"data-key": "in-use", style: {width: 100 * inUse / Math.max(1, card.memoryMiB) + "%"}}));
}

const computeOf = card => card.computeTotal === 100 ? card.compute : `${card.compute}/${card.computeTotal}`;

export function swatch(dialect) {
  return h("span", {title: dialect}, h("span.dot", {"aria-hidden": "true", style: {"background-color": color(dialect)}}),
    h("span.letter", {"aria-hidden": "true"}, letter(dialect)), h("span.hidden", {}, dialect + " "));
}

function share(each, node, uuid) {
  const amount = each.blocked ? t("blocked") : `${gib(each.memoryMiB)} GiB${each.compute ? ` ${each.compute}%` : ""}`;
  const inUse = used.ofPod(node, each.pod, uuid);
  return h("span", {"data-key": each.pod}, swatch(each.dialect), podLink(each.pod), " ",
    h("span.dim", {}, inUse === null ? amount : `${amount}, ${used.words(inUse)}`));
}

function card(each, node) {
  const blocked = each.shares.some(one => one.blocked);
  const inUse = used.ofCard(node, each.uuid);
  const figures = blocked ? t("blocked") + `, ${gib(each.memoryMiB)} GiB`
    : t("ofGib", {granted: gib(each.grantedMiB), memory: gib(each.memoryMiB)});
  return h("li.card", {"data-key": each.uuid, "data-card": each.uuid},
    h("span.dim", {title: each.uuid}, "#" + each.index), bar(each, inUse),
    h("span.num.memory", {}, figures, used.shown(inUse)), h("span.num.c", {}, t("ofCompute", {percent: computeOf(each)})),
    h("span.who", {}, each.healthy ? null : h("span.bad", {}, t("unhealthyCard")),
      each.shares.map(one => share(one, node, each.uuid)), each.shares.length || !each.healthy ? null : h("span.dim", {}, t("idle"))));
}

export const cards = node => h("ul.cards", {}, node.cards.map(each => card(each, node.name)));

export function facts(node) {
  return h("div.facts", {}, h("span", {}, node.models.join(", ")), node.dialects.map(each => h("span", {}, swatch(each), each)),
    h("span", {}, t("nodeFacts", {granted: gib(node.grantedMiB), memory: gib(node.memoryMiB)})), used.shown(used.ofNode(node.name)),
    h("span", {}, t("podsHere", {pods: number(node.pods)})), h("span", {}, t("largest", {free: gib(node.largestMiB)})));
}

export function legend() {
  const item = (text, share, outline = "") => h("li", {}, h("span.bar" + outline, {"aria-hidden": "true"}, share), text);
  const plain = (cls = "") => h("i" + cls);
  return h("details", {"data-key": "legend", open: true}, h("summary", {}, t("legend")), h("ul.legend", {},
    [...DIALECTS.values()].map(each => h("li", {}, h("span.dot", {"aria-hidden": "true", style: {"background-color": each.color}}),
      h("span.letter", {"aria-hidden": "true"}, each.letter), each.name)),
    item(t("unknownDialect"), plain()), item(t("isFree"), null),
    used.asks() ? item(t("isUsed"), h("b")) : null, item(t("isReserved"), plain(".reserved")),
    item(t("isExclusive"), plain(".exclusive")), item(t("isBlocked"), plain(".blocked")),
    item(t("isUnhealthy"), null, ".unhealthy"), item(t("isOver"), plain(), ".over")));
}
