// What is used, beside what is granted: the node agents measure it, and the service asks those of the nodes in view.

import {h} from "./element.js";
import {gib, t} from "./text.js";

let asked = null, nodes = {};

/** Whether the service asks agents; false until it has said so. */
export const asks = () => asked === true;

/** Whether asking the service makes sense. */
export const wanted = () => asked !== false;

/** Keep an answer; whether it is another one. */
export function learn(answer) {
  const other = answer.nodes !== nodes;
  ({asked, nodes} = answer);
  return other;
}

/** Nothing is known any more; whether something was. */
export function forget() {
  const known = Object.keys(nodes).length > 0;
  nodes = {};
  return known;
}

/** MiB of a card by the driver; null where it is not known. */
export const ofCard = (node, uuid) => nodes[node]?.cards[uuid]?.usedMiB ?? null;

/** Percent of a card's compute by the driver; null where it is not known. */
export const computeOf = (node, uuid) => nodes[node]?.cards[uuid]?.compute ?? null;

/** MiB of a pod on one card, or on all of a node, by HAMi-core's record; null where it is not known. */
export function ofPod(node, pod, uuid = null) {
  const cards = nodes[node]?.pods[pod];
  if (!cards) return null;
  return uuid === null ? sum(Object.values(cards)) : cards[uuid] ?? null;
}

/** Ninths of each card of a node by the driver, a digit each; a dash where it is not known. */
export const ninths = node => Object.values(nodes[node]?.cards ?? {}).map(({usedMiB, memoryMiB}) =>
  usedMiB === null ? "-" : Math.ceil(9 * usedMiB / Math.max(1, memoryMiB))).join("");

/** MiB of all cards of a node as far as it is known; null where it is not. */
export const ofNode = node => sum(Object.values(nodes[node]?.cards ?? {}).map(card => card.usedMiB));

/** MiB of the pods of a namespace on the nodes that answered; null where none is known. */
export const ofNamespace = namespace => sum(Object.values(nodes).flatMap(({pods}) =>
  Object.entries(pods).filter(([pod]) => pod.startsWith(namespace + "/")).flatMap(([, cards]) => Object.values(cards))));

function sum(amounts) {
  const known = amounts.filter(each => each !== null);
  return known.length ? known.reduce((all, each) => all + each, 0) : null;
}

/** "used 3.1 GiB" or "used: not known"; empty where the service asks no agent. */
export const words = mib => !asks() ? "" : mib === null ? t("usedNotKnown") : t("usedGib", {used: gib(mib)});

/** The same as an element, dim where it is not known; null where the service asks no agent. */
export const shown = mib => asks() ? h(mib === null ? "span.used.dim" : "span.used", {}, words(mib)) : null;
