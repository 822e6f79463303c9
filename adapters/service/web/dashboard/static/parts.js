// Parts that several views have: tables, notes, filters, pages, links.

import {h} from "./element.js";
import {inChinese, numbered} from "./problems.js";
import {chinese} from "./reasons.js";
import {address} from "./route.js";
import {age, moment, number, speaks, t} from "./text.js";

export const nodeLink = name => name && h("a", {href: address("node", name), translate: "no"}, name);
export const podLink = name => name && h("a", {href: address("pod", name), translate: "no"}, name);

/** A text of the service, which is English; reasons and problems are translated, and the original is their title. */
export function said(text, name = "span", cards = []) {
  const translated = speaks() === "zh" ? chinese(text) ?? inChinese(text) : null;
  const shown = numbered(translated ?? text, cards).replace(/\.0(?= GiB| of [\d.]+ GiB)/g, "");
  return h(name + ".long", {title: shown === text ? null : text, lang: translated === null ? "en" : null}, shown);
}

export const time = iso => iso ? h("time", {datetime: iso, title: iso}, moment(iso)) : "";

/** How long ago an answer held; nothing where there is none. */
export const held = iso => iso ? h("time.dim", {datetime: iso, title: moment(iso)}, t("ago", {age: age(iso)})) : "";

/** How long ago something began. */
export const since = iso => iso ? h("time", {datetime: iso, title: moment(iso)}, age(iso)) : "";

/** Numbers of cards, those that follow each other as a range: "#0, #4–#7". */
export function numbers(indexes) {
  const ranges = [];
  for (const index of [...new Set(indexes)].sort((one, other) => one - other)) {
    if (ranges.length && ranges.at(-1)[1] === index - 1) ranges.at(-1)[1] = index;
    else ranges.push([index, index]);
  }
  return ranges.map(([first, last]) => first === last ? `#${first}` : `#${first}–${last}`).join(", ");
}

export const heading = text => h("h2", {tabindex: "-1", "data-key": "heading", id: "heading"}, text);

export const note = (...children) => h("div.note", {}, ...children);

/** A table that is a list of blocks on a phone; the roles stay what they are there too. A head that is null has no column. */
export function table(label, heads, rows) {
  const shown = heads.map((head, place) => head && place).filter(place => place !== null && place !== false);
  rows = rows.map(({key, cells}) => ({key, cells: shown.map(place => cells[place])}));
  heads = shown.map(place => heads[place]);
  return h("table", {role: "table", "aria-label": label},
    h("thead", {role: "rowgroup"}, h("tr", {role: "row"},
      heads.map(([text, cls]) => h("th" + (cls ? "." + cls : ""), {role: "columnheader", scope: "col"}, text)))),
    h("tbody", {role: "rowgroup"}, rows.map(({key, cells}) => h("tr", {role: "row", "data-key": key},
      cells.map((cell, place) => h("td" + (heads[place][1] ? "." + heads[place][1] : ""),
        {role: "cell", "data-label": heads[place][0]}, cell))))));
}

/** Whether filters fold; the same width as in phone.css. */
export const PHONE = matchMedia("(max-width: 760px)");

/** One field of a filter; `options` makes it a choice of [value, text]. */
export function field(name, label, parameters, {options = null, wide = false, small = false, ...attributes} = {}) {
  const value = parameters[name] ?? "";
  const input = options
    ? h("select", {name}, options.map(([each, text]) => h("option", {value: each, selected: each === value}, text)))
    : h("input", {name, value, autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": attributes.type === "search" ? "/" : null,
        ...attributes});
  if (options) input.value = options.some(([each]) => each === value) ? value : "";
  return h("label" + (wide ? ".wide" : small ? ".small" : ""), {"data-key": "field-" + name}, label, input);
}

export const facet = (values = []) => [["", t("any")], ...values.map(({name, count}) => [name, `${name} (${number(count)})`])];

/** The search, and the other filters of a view, which a phone folds. */
export function filters(search, ...fields) {
  const set = fields.filter(each => each.querySelector("input, select").value).length;
  return h("form.filters", {role: "search", "data-key": "filters"}, search,
    h("details.more", {"data-key": "more", open: !PHONE.matches},
      h("summary", {}, set ? t("filtersSet", {count: set}) : t("filters")),
      h("div.fields", {}, fields, h("button", {type: "button", "data-action": "clear"}, t("clear")))));
}

/** How many rows there are, and links to the pages before and after; `id` names the count that is announced. */
export function pages(view, parameters, {total, rows}, limit, id = "count") {
  const offset = Number(parameters.offset ?? 0);
  const to = place => address(view, "", {...parameters, offset: place > 0 ? String(place) : ""});
  const link = (place, label, sign, valid, key) => valid
    ? h("a", {href: to(place), "aria-label": label, "data-key": key}, sign)
    : h("span", {"aria-hidden": "true", "data-key": key + "-off"}, sign);
  return h("div.found", {"data-key": "found"},
    h("span", {id}, rows.length
      ? t("range", {from: number(offset + 1), to: number(offset + rows.length), total: number(total)}) : t("none")),
    h("nav.pages", {"aria-label": t("pages")},
      link(Math.max(0, offset - limit), t("previous"), "←", offset > 0, "previous"),
      link(offset + limit, t("next"), "→", offset + limit < total, "next")));
}
