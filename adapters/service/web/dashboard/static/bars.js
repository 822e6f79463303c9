// Cards as bars, their shares as links, and the legend of all colors and patterns.

import {h} from "./element.js";
import {PHONE, numbers, podLink} from "./parts.js";
import {gib, number, ofGib, t} from "./text.js";
import * as used from "./used.js";

const DIALECTS = new Map(JSON.parse(document.getElementById("dialects").textContent).map(each => [each.name, each]));
export const color = dialect => DIALECTS.get(dialect)?.color ?? "var(--unknown)";
const letter = dialect => DIALECTS.get(dialect)?.letter ?? "?";

const patterns = share => ["reserved", "blocked", "exclusive"].filter(each => share[each]).map(each => "." + each).join("");

/** The state of a card in a word; none where its amounts say it. */
const WORDS = {idle: "idle", full: "full", exclusive: "exclusiveWord", blocked: "blocked", unhealthy: "unhealthyCard"};

function bar(card, inUse, label) {
  const blocker = card.shares.find(share => share.blocked);
  const words = [card.healthy ? "" : t("unhealthyCard"), blocker ? t("blockedBy", {pod: blocker.pod}) : "", card.over ? t("isOver") : "",
    ["full", "exclusive"].includes(card.state) ? t(WORDS[card.state]) : ""];
  const text = t("barLabel", {index: label, ...ofGib(card.grantedMiB, card.memoryMiB), compute: card.compute ? t("andCompute", {percent: computeOf(card)}) : "",
    count: number(card.shares.length), used: used.asks() ? ", " + used.words(inUse) : "", state: words.filter(Boolean).map(each => ", " + each).join("")});
  return h("span.bar" + (card.healthy ? "" : ".unhealthy") + (card.over ? ".over" : ""), {role: "img", "aria-label": text},
    card.shares.map(share => h("i" + patterns(share), {"data-key": share.pod, title: share.pod, style: {
      width: (share.blocked ? 100 : Math.min(100, 100 * share.memoryMiB / Math.max(1, card.memoryMiB))) + "%",
      "background-color": color(share.dialect)}})),
    inUse === null ? null : h("b", {"data-key": "in-use", style: {width: 100 * inUse / Math.max(1, card.memoryMiB) + "%"}}));
}

const computeOf = card => card.computeTotal === 100 ? card.compute : `${card.compute}/${card.computeTotal}`;

export function swatch(dialect) {
  if (!dialect) return null;
  return h("span", {title: dialect}, h("span.dot", {"aria-hidden": "true", style: {"background-color": color(dialect)}}),
    h("span.letter", {"aria-hidden": "true"}, letter(dialect)), h("span.hidden", {}, dialect + " "));
}

/** A pod of a card; its amount only where another one has a part of the card too. */
function share(each, card, node) {
  const alone = card.shares.length === 1;
  const amount = each.blocked ? t("blocked") : alone ? "" : `${gib(each.memoryMiB)}${each.compute ? ` ${each.compute}%` : ""}`;
  const inUse = used.ofPod(node, each.pod, card.uuid);
  return h("span", {"data-key": each.pod}, swatch(each.dialect), podLink(each.pod), " ",
    h("span.dim.near", {}, [amount, inUse === null ? "" : used.words(inUse)].filter(Boolean).join(", ")));
}

function row(alike, node) {
  const [each] = alike, word = WORDS[each.state], inUse = used.ofCard(node, each.uuid);
  const figures = each.state === "blocked" ? `${t("blocked")}, ${gib(each.memoryMiB)}` : word ? t(word) : t("ofGib", ofGib(each.grantedMiB, each.memoryMiB));
  const label = numbers(alike.map(card => card.index));
  return h("li.card", {"data-key": each.uuid, "data-card": each.uuid},
    h("span.dim", {title: alike.map(card => card.uuid).join(" ")}, label), bar(each, inUse, label.slice(1)),
    h("span.memory", {}, h(each.healthy ? "span" : "span.bad", {}, figures), each.compute && !word ? h("span.c", {}, t("percentCompute", {percent: computeOf(each)})) : null, used.shown(inUse)),
    h("span.who", {}, each.shares.map(one => share(one, each, node))));
}

/** The cards of a node; those that follow each other and have the same to say are one row. */
export function cards(node) {
  const groups = [];
  let before = null;
  for (const card of node.cards) {
    const same = JSON.stringify([card.model, card.state, card.memoryMiB, card.shares, used.ofCard(node.name, card.uuid),
      card.shares.map(each => used.ofPod(node.name, each.pod, card.uuid))]);
    if (same === before && card.shares.length < 2) groups.at(-1).push(card);
    else groups.push([card]);
    before = same;
  }
  return h("ul.cards", {}, groups.map(each => row(each, node.name)), node.devices.map(each => h("li.card", {"data-key": each.resource},
    h("span.dim", {}, `${each.inUse}/${each.allocatable}`),
    h("span.bar", {role: "img", "aria-label": t("devicesLabel", {used: each.inUse, all: each.allocatable, resource: each.resource})},
      each.inUse ? h("i.plain", {style: {width: 100 * Math.min(1, each.inUse / Math.max(1, each.allocatable)) + "%"}}) : null),
    h("span.memory", {}, [each.memoryMiB ? gib(each.memoryMiB) : "", each.replicas > 1 ? `× ${each.replicas}` : "", each.sharing].filter(Boolean).join(" "),
      each.unhealthy ? h("span.bad", {}, " ", t("sickCards", {cards: number(each.unhealthy)})) : null),
    h("span.who", {}, h("span.dim", {}, each.resource), node.users.filter(user => user.devices[each.resource]).map(user =>
      h("span", {"data-key": user.pod}, podLink(user.pod), " ", h("span.dim", {}, `× ${user.devices[each.resource]}`)))))));
}

export function facts(node) {
  const served = node.devices.length > 0;
  return h("div.facts", {}, h("span", {}, node.models.join(", ")), node.dialects.map(each => h("span", {}, swatch(each), each)),
    served ? h("span", {}, t("byPlugin")) : h("span", {}, t("nodeFacts", ofGib(node.grantedMiB, node.memoryMiB))), served ? null : used.shown(used.ofNode(node.name)),
    h("span", {}, t("podsHere", {pods: number(node.pods)})), served ? null : h("span", {}, node.largestMiB ? t("largest", {free: gib(node.largestMiB)}) : t("noFree")));
}

/** What the colors and patterns of these nodes mean; it folds. */
export function legend(nodes) {
  const cards = nodes.flatMap(node => node.cards), shares = cards.flatMap(card => card.shares);
  const item = (valid, text, cls = "", outline = "", mark = null) => valid
    ? h("li", {}, h("span.bar" + outline, {"aria-hidden": "true"}, cls === null ? null : h("i" + cls), mark), text) : null;
  const dialects = [...new Set(shares.map(share => share.dialect))].sort();
  if (!cards.length) return null;
  return h("details.folds", {"data-key": "legend", open: !PHONE.matches}, h("summary", {}, t("legend")), h("ul.legend", {},
    dialects.map(each => h("li", {}, h("span.dot", {"aria-hidden": "true", style: {"background-color": color(each)}}),
      h("span.letter", {"aria-hidden": "true"}, letter(each)), each)),
    item(cards.some(card => card.freeMiB), t("isFree"), null),
    item(used.asks(), t("isUsed"), null, "", h("b")), item(shares.some(each => each.reserved), t("isReserved"), ".reserved"),
    item(shares.some(each => each.exclusive), t("isExclusive"), ".exclusive"), item(shares.some(each => each.blocked), t("isBlocked"), ".blocked"),
    item(cards.some(card => !card.healthy), t("isUnhealthy"), null, ".unhealthy"), item(cards.some(card => card.over), t("isOver"), "", ".over")));
}
