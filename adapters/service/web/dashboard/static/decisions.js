// The decisions of this replica, with their times.

import {h} from "./element.js";
import {field, filters, nodeLink, note, pages, podLink, said, table, time} from "./parts.js";
import {number, t} from "./text.js";

export const LIMIT = 50;

export const question = ({q = "", outcome = "", offset = ""}) => ({q, outcome, offset, limit: LIMIT});

const NO = ["refused", "invalid", "error"];

/** The pod, or the claim with its pods. */
function subject({pod, consumers = []}) {
  const links = consumers.map((name, place) => [place ? ", " : "", podLink(name)]);
  return h("span", {}, pod.includes("/") ? podLink(pod) : pod, links.length ? [" (", links, ")"] : null);
}

export function decisionTable(rows) {
  if (!rows.length) return h("p.dim", {}, t("noDecisions"));
  return table(t("decisions"), [[t("time")], [t("verb")], [t("outcome")], [t("pod")], [t("dialect")], [t("node")], [t("text")]],
    rows.map(row => ({key: row.decision, cells: [time(row.time), row.verb, h(NO.includes(row.outcome) ? "span.bad" : "span", {}, row.outcome),
      subject(row), row.dialect, nodeLink(row.node), row.text ? said(row.text) : ""]})));
}

export function list(found, parameters) {
  const outcomes = [["", t("any")], ["yes", t("yes")], ["no", t("no")]];
  return [h("h2", {tabindex: "-1", "data-key": "heading", id: "heading"}, t("decisions")),
    filters(field("q", t("search"), parameters, {type: "search", placeholder: t("searchDecisions"), wide: true}),
      field("outcome", t("outcome"), parameters, {options: outcomes})),
    pages("decisions", parameters, found, LIMIT),
    h("p.dim", {"data-key": "kept"}, t("heldDecisions", {kept: number(found.kept)})),
    found.rows.length ? decisionTable(found.rows) : note(t(found.kept ? "nothingFound" : "noDecisions"))];
}
