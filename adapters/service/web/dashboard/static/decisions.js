// The decisions of this replica, with their times.

import {h} from "./element.js";
import {field, filters, heading, nodeLink, note, pages, podLink, said, table, time} from "./parts.js";
import {moment, t} from "./text.js";

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

/** Whose decisions these are: each replica knows its own. */
export const replica = ({replica: name, since: at}) => h("p.dim", {"data-key": "replica"}, t("ofReplica", {replica: name, time: moment(at)}));

export function list(found, parameters) {
  const outcomes = [["", t("any")], ["yes", t("yes")], ["no", t("no")]];
  return [heading(t("decisions")),
    filters(field("q", t("search"), parameters, {type: "search", placeholder: t("searchDecisions"), wide: true}),
      field("outcome", t("outcome"), parameters, {options: outcomes, small: true})),
    pages("decisions", parameters, found, LIMIT),
    replica(found), found.rows.length ? decisionTable(found.rows) : note(t(found.kept ? "nothingFound" : "noDecisions"))];
}
