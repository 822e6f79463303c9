// Plans of moves: how far each is, its moves, and its cards before and after.

import {h} from "./element.js";
import {heading, held, nodeLink, note, pages, podLink, said, table, time} from "./parts.js";
import {number, t} from "./text.js";

const LIMIT = 10; // the service answers so many
const ENDED = ["Finished", "Stopped"];
const STATES = {waits: "moveWaits", evicting: "moveEvicting", evicted: "moveEvicted", ready: "moveReady", skipped: "moveSkipped", stays: "moveStays"};

export const question = ({offset = ""}) => ({offset});

export function list(found, parameters) {
  if (found.problem) return [heading(t("moves")), h("div.note.error", {role: "alert", "data-key": "unknown"}, t("plansUnknown", {why: found.problem}))];
  return [heading(t("moves")), pages("moves", parameters, found, LIMIT),
    found.rows.length ? h("div", {"data-key": "rows"}, found.rows.map(plan)) : note(t("noPlans"))];
}

/** One plan, with its moves and their picture. */
export function plan(each) {
  const broken = each.problem || each.phase === "Stopped";
  const count = number(each.moves.length);
  return h("article.node" + (broken ? ".sick" : ""), {"data-key": each.name, "data-plan": each.name, "aria-label": each.name},
    h("h3", {translate: "no"}, each.name),
    h("div.facts", {}, h("span", {translate: "no"}, each.phase || "New"),
      each.moves.length ? h("span", {}, t("stepOf", {step: number(each.step), count})) : null,
      each.created ? h("span", {}, t("made"), " ", held(each.created)) : null,
      each.updated ? h("span", {}, t("changed"), " ", held(each.updated)) : null),
    each.reason ? h("p", {}, said(each.reason)) : null,
    each.problem ? h("p.bad", {}, said(each.problem)) : null,
    each.moves.length ? h("details", {"data-key": "moves", open: !ENDED.includes(each.phase)}, h("summary", {}, t("movesOf", {count})),
      each.picture && picture(each), table(t("movesOf", {count}), [["#"], [t("pod")], [t("from")], [t("to")], [t("state")], [t("time")]],
        each.moves.map(move))) : null);
}

function move(each) {
  return {key: `${each.step}`, cells: [number(each.step), podLink(each.pod), nodeLink(each.from), nodeLink(each.to),
    h("span", {}, t(STATES[each.state]), each.replacement ? [" ", podLink(each.replacement)] : null), time(each.at)]};
}

/** The name of its state makes another address where it may differ; the path is relative, as every one. */
function picture({name, picture: state}) {
  const query = new URLSearchParams({plan: name, state});
  return h("img.picture", {src: `api/dashboard/picture?${query}`, alt: t("pictureOf", {name}), loading: "lazy"});
}
