// The map of all cards: a canvas for each model, a square for each card, filled from below by what is granted;
// a square for each node where the cards are too many.

import {h} from "./element.js";
import {percent, number, t} from "./text.js";

const SIZES = [22, 18, 14, 11, 9, 7];
const SMALL = [14, 11, 9, 7]; // of nodes, where their cards would be too small or too many
const WIDEST = 16; // cards in one row of a node
export const WRONG = "obu";

let groups = [], places = [], size = 14, at = null, listener = () => {}, fills = [];

const gap = () => size > 8 ? 2 : 1;
const apart = () => groups[0]?.whole ? gap() : size > 10 ? 10 : 6;

/** Where the nodes of a group are on `width` pixels. */
function layout(group, width) {
  const cards = Math.max(1, ...group.nodes.map(([, cells]) => cells.length / 2));
  const across = Math.min(cards, WIDEST), down = Math.ceil(cards / across), step = size + gap();
  const columns = Math.max(1, Math.floor((width + apart()) / (across * step - gap() + apart())));
  const high = down * step - gap() + apart();
  return {across, columns, step, wide: across * step - gap() + apart(), high, width: Math.min(columns, group.nodes.length) * (across * step - gap() + apart()) - apart(), height: Math.max(1, Math.ceil(group.nodes.length / columns) * high - apart())};
}

/** Whether the map of some groups is not higher than it should be with one of the sizes. */
const fit = (wanted, sizes, width, height) => sizes.some(one => {
  [groups, size] = [wanted, one];
  places = groups.map(group => layout(group, width));
  return places.reduce((all, each) => all + each.height + 46, 0) <= height;
});

/** A node as one square: its problem, else whether it is idle or full; of its marks the one in the middle. */
function summed([name, cells, wrong, marks]) {
  const count = cells.length / 2, states = [...cells].filter((_, place) => place % 2 === 0);
  const tenths = [...cells].reduce((all, each, place) => all + (place % 2 ? Number(each) : 0), 0);
  const state = states.find(each => WRONG.includes(each)) ?? (wrong ? "o" : states.every(each => each === "x") ? "x" : tenths ? "s" : ".");
  const known = [...marks].filter(each => each !== "-").sort();
  return [name, state + Math.min(9, Math.ceil(tenths / Math.max(1, count))), wrong, known[known.length >> 1] ?? "-", count];
}

/**
 * The sections of the map; `chosen` is called with the card that a person looks at. A node has a name, two letters a card,
 * whether something is wrong, and a mark a card; `layers` are [color, (state, ninths, mark) => ninths of it that are filled].
 */
export function heat(found, width, height, layers, chosen) {
  [listener, fills] = [chosen, layers];
  if (!fit(found, SIZES, width, height)) fit(found.map(group => ({...group, whole: true, nodes: group.nodes.map(summed)})), SMALL, width, height);
  return groups.map((group, number) => h("div.heat", {"data-key": "map-" + number},
    h("canvas", {tabindex: "0", role: "application", "data-map": number, "aria-describedby": "cell",
      "aria-label": t("mapOf", {...words(group), model: group.model || t("unknownModel")}), width: Math.round(places[number].width * devicePixelRatio),
      height: Math.round(places[number].height * devicePixelRatio), style: {width: places[number].width + "px", height: places[number].height + "px"}}),
    h("div.mark", {"aria-hidden": "true"})));
}

export const words = group => ({nodes: number(group.nodes.length), cards: number(group.cards),
  percent: group.served ? percent(group.inUse, group.cards) : percent(group.grantedMiB, group.memoryMiB)});

const corner = (group, node, card) => {
  const {across, columns, step, wide, high} = places[group];
  return [node % columns * wide + card % across * step, Math.floor(node / columns) * high + Math.floor(card / across) * step];
};

/** Draw all cards; the colors are those of the page. */
export function paint() {
  for (const canvas of document.querySelectorAll("[data-map]")) {
    const group = groups[canvas.dataset.map], context = canvas.getContext("2d");
    const color = text => { canvas.style.color = text; return getComputedStyle(canvas).color; };
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    const every = (name, draw) => {
      context.fillStyle = context.strokeStyle = color(name);
      context.beginPath();
      group.nodes.forEach(([, cells, wrong, marks], node) => {
        const first = wrong && ![...cells].some(each => WRONG.includes(each)); // a problem of no card is shown at the first one
        for (let card = 0; card < cells.length / 2; card++)
          draw(cells[2 * card], Number(cells[2 * card + 1]), ...corner(canvas.dataset.map, node, card), first && card === 0, marks[card] ?? "-");
      });
    };
    const rounded = size > 10 ? 3 : 0;
    const square = (x, y) => rounded ? context.roundRect(x, y, size, size, rounded) : context.rect(x, y, size, size);
    every("var(--free)", (state, tenths, x, y) => square(x, y));
    context.fill();
    context.save();
    if (rounded) context.clip();
    for (const [name, filled] of fills) every(name, (state, tenths, x, y, first, mark) => {
      const part = filled(state, tenths, mark), high = Math.max(part ? 1 : 0, Math.round(size * part / 9));
      if (high) context.fillRect(x, y + size - high, size, high);
    });
    if (size > 6) {
      context.lineWidth = size > 10 ? 1.5 : 1;
      every("var(--hatch)", (state, tenths, x, y) => {
        if (state === "x") for (const part of [.5, 1, 1.5]) {
          const near = Math.max(0, part - 1) * size, far = Math.min(1, part) * size;
          context.moveTo(x + near, y + far);
          context.lineTo(x + far, y + near);
        }
      });
      context.stroke();
    }
    every("var(--bad)", (state, tenths, x, y, first) => {
      if (!first && !WRONG.includes(state)) return;
      const part = size > 6 ? .62 * size : size;
      context.moveTo(x + size - part, y);
      context.lineTo(x + size, y);
      context.lineTo(x + size, y + part);
    });
    context.fill();
    context.restore();
  }
  show();
}

/** Put the mark where the chosen card is. */
function show() {
  for (const mark of document.querySelectorAll(".mark")) mark.style.visibility = "hidden";
  const canvas = at && document.querySelector(`[data-map="${at.group}"]`);
  if (!canvas || !groups[at.group]?.nodes[at.node]) return;
  const [x, y] = corner(at.group, at.node, at.card), mark = canvas.nextSibling;
  Object.assign(mark.style, {visibility: "visible", width: size + 6 + "px", height: size + 6 + "px", transform: `translate(${x - 3}px, ${y - 3}px)`});
}

function choose(group, node, card) {
  const nodes = groups[group]?.nodes;
  if (!nodes?.length) return;
  node = Math.min(Math.max(node, 0), nodes.length - 1);
  card = Math.min(Math.max(card, 0), Math.max(0, nodes[node][1].length / 2 - 1));
  if (at && at.group === group && at.node === node && at.card === card) return;
  at = {group, node, card};
  show();
  listener(current());
}

/** The chosen card: its group, the name of its node, its place there; null where none is. */
export const current = () => at && groups[at.group]?.nodes[at.node] ? {group: groups[at.group], name: groups[at.group].nodes[at.node][0],
  cells: groups[at.group].nodes[at.node][1], card: at.card,
  cards: groups[at.group].nodes[at.node][4]} : null;

/** Choose the card below the pointer; whether there is one. */
export function point({target, offsetX, offsetY}) {
  const group = Number(target.dataset.map), {across, columns, step, wide, high} = places[group];
  const column = Math.floor(offsetX / wide), node = Math.floor(offsetY / high) * columns + column;
  if (column >= columns || !groups[group].nodes[node]) return false;
  const inside = Math.min(across - 1, Math.floor(offsetX % wide / step)), row = Math.floor(offsetY % high / step);
  if (row * across + inside >= groups[group].nodes[node][1].length / 2 && groups[group].nodes[node][1]) return false;
  choose(group, node, row * across + inside);
  return true;
}

/** Begin at the first card of a map that gets the focus. */
export function enter({target}) {
  const group = Number(target.dataset.map);
  if (at?.group !== group) choose(group, 0, 0);
}

/** Walk by an arrow key; whether it was one. */
export function walk({key, target}) {
  const group = Number(target.dataset.map), {columns} = places[group];
  if (at?.group !== group) choose(group, 0, 0);
  const {node, card} = at, cards = groups[group].nodes[node][1].length / 2;
  const steps = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [columns, 0], ArrowUp: [-columns, 0], Home: [-node, -card], End: [groups[group].nodes.length, 0]};
  if (!(key in steps)) return false;
  const [nodes, one] = steps[key];
  if (one && card + one >= cards && node + 1 < groups[group].nodes.length) choose(group, node + 1, 0);
  else if (one && card + one < 0 && node) choose(group, node - 1, WIDEST * 4);
  else if (one || groups[group].nodes[node + nodes] || key === "Home" || key === "End") choose(group, node + nodes, card + one);
  return true;
}
