// What the page does: asks, draws, asks again; and what happens when a person clicks or types.

import {Refused, ask} from "./api.js";
import * as decisions from "./decisions.js";
import {h} from "./element.js";
import {header} from "./header.js";
import {morph} from "./morph.js";
import * as moves from "./moves.js";
import * as nodes from "./nodes.js";
import * as overview from "./overview.js";
import {PHONE} from "./parts.js";
import * as pods from "./pods.js";
import {address, current, go} from "./route.js";
import {clock, speak, speaks, t} from "./text.js";
import {isDark, onSystem, switchTheme} from "./theme.js";
import * as used from "./used.js";

const EVERY = 5000;

const VIEWS = {
  overview: {asks: "overview", question: ({parameters}) => overview.question(parameters), draw: overview.list, inView: overview.inView},
  nodes: {asks: "nodes", question: ({parameters}) => nodes.question(parameters), draw: nodes.list,
          inView: found => found.rows.map(row => row.name)},
  node: {asks: "node", question: ({name}) => ({name}), draw: nodes.one, inView: found => [found.name]},
  pods: {asks: "pods", question: ({parameters}) => pods.question(parameters), draw: pods.list,
         inView: found => found.rows.map(row => row.node)},
  pod: {asks: "pod", question: ({name}) => ({name}), draw: found => pods.one(found, shown.explained),
        inView: found => found.allocations.map(each => each.node)},
  pending: {asks: "pending", question: ({parameters}) => pods.pendingQuestion(parameters), draw: pods.pending},
  moves: {asks: "moves", question: ({parameters}) => moves.question(parameters), draw: moves.list},
  decisions: {asks: "decisions", question: ({parameters}) => decisions.question(parameters), draw: decisions.list},
};

const shown = {route: current(), summary: null, found: null, problem: "", state: "loading", at: null, why: "",
               paused: false, explained: null};
let timer = 0, running = null;

async function refresh() {
  clearTimeout(timer);
  running?.abort();
  const mine = running = new AbortController();
  const {route} = shown, view = VIEWS[route.view];
  try {
    const [summary, found] = await Promise.all([ask("summary", {}, mine.signal),
      ask(view.asks, view.question(route), mine.signal).catch(error => {
        if (!(error instanceof Refused)) throw error;
        return {value: null, problem: error.message};
      })]);
    const same = summary.same && found.same && shown.found === found.value && shown.state === "live";
    Object.assign(shown, {summary: summary.value, found: found.value, problem: found.problem ?? "", state: "live", at: new Date(), why: ""});
    drawHead();
    if (!same) drawMain();
    if (route.view === "pod" && found.value?.pending && !shown.explained) explain();
    if (found.value) measure(view.inView?.(found.value) ?? [], mine.signal);
  } catch (error) {
    if (mine.signal.aborted) return;
    Object.assign(shown, {state: shown.at ? "stale" : "unreachable", why: error.message});
    drawHead();
    if (!shown.at) drawMain();
  }
  if (!shown.paused) timer = setTimeout(refresh, EVERY);
}

/** Ask what is used on the nodes in view; nothing waits for it, and without an answer it is not known. */
async function measure(nodes, signal) {
  const names = [...new Set(nodes)].filter(Boolean).sort().join(",");
  if (!names || !used.wanted()) return;
  try {
    const {value} = await ask("used", {nodes: names}, signal);
    if (!signal.aborted && used.learn(value)) drawMain();
  } catch (error) {
    if (!signal.aborted && used.forget()) drawMain();
  }
}

function drawHead() {
  const {route, summary, state, at, paused, why} = shown;
  document.documentElement.lang = speaks() === "zh" ? "zh-CN" : "en";
  document.title = [route.name || t(route.view), t("title")].join(" · ");
  document.body.dataset.state = state;
  const skip = document.getElementById("skip");
  if (skip.textContent !== t("skip")) skip.textContent = t("skip");
  morph(document.getElementById("head"), h("header", {id: "head"}, header({view: route.view, summary, state, at, paused, dark: isDark()})));
  const banner = state === "stale" ? t("stale", {time: clock(at), why})
    : state === "unreachable" ? t("unreachable", {why, seconds: EVERY / 1000})
    : summary?.awaited ? t("notReady", {why: summary.awaited}) : "";
  const place = document.getElementById("banner");
  if (place.textContent !== banner) place.textContent = banner;
}

function drawMain() {
  const {route, summary, found, problem} = shown;
  const content = problem ? h("div.note.error", {role: "alert", lang: "en", "data-key": "error"}, t("error", {why: problem}))
    : found && summary ? VIEWS[route.view].draw(found, route.parameters, summary) : h("p", {"data-key": "start"}, t("loading"));
  const busy = !found && !problem;
  morph(document.getElementById("main"), h("main", {id: "main", tabindex: "-1", "aria-busy": busy ? "true" : null}, content));
  const count = document.getElementById("count")?.textContent ?? "";
  const announced = document.getElementById("announced");
  if (announced.textContent !== count) announced.textContent = count;
}

let evaluating = ""; // the pod that the service evaluates now

async function explain() {
  const {name} = shown.route;
  if (evaluating === name) return;
  evaluating = name;
  try {
    const {value} = await ask("explain", {name});
    if (shown.route.name === name) shown.explained = value;
  } catch (error) {
    shown.explained = {problem: error.message};
  }
  evaluating = "";
  if (shown.route.name === name) drawMain();
}

function arrive() {
  const route = current();
  const other = route.view !== shown.route.view || route.name !== shown.route.name;
  Object.assign(shown, {route, problem: ""});
  if (other) {
    forget();
    Object.assign(shown, {found: null, explained: null});
    drawMain();
    scrollTo(0, 0);
    document.getElementById("main").focus({preventScroll: true});
  }
  drawHead();
  refresh();
}

/** Filters changed: the address says so, from the first page on. */
function filter() {
  const parameters = {...current().parameters, offset: "", ...typed}; forget();
  go(address(shown.route.view, "", parameters), true);
}

function forget() {
  clearTimeout(typing);
  typed = {};
}

const ACTIONS = {
  clear: () => { forget(); go(address(shown.route.view), true); },
  explain,
  theme: () => {
    switchTheme(); drawHead(); drawMain();
  },
  pause: () => {
    shown.paused = !shown.paused;
    if (shown.paused) { clearTimeout(timer); drawHead(); } else refresh();
  },
};

let typing = 0, typed = {}; // filters that the address does not have yet
addEventListener("input", ({target}) => {
  if (!target.form?.matches(".filters")) return;
  clearTimeout(typing);
  typed[target.name] = target.value.trim();
  typing = setTimeout(filter, target.nodeName === "SELECT" ? 0 : 300);
});
addEventListener("change", ({target}) => {
  if (target.dataset.action !== "language") return;
  speak(target.value);
  drawHead(); drawMain();
});
addEventListener("click", ({target}) => {
  const action = target.closest?.("[data-action]")?.dataset.action;
  if (action in ACTIONS) ACTIONS[action]();
});
addEventListener("keydown", event => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("input, select, textarea")) return;
  const search = document.querySelector(".filters input[type=search]");
  if (!search) return;
  event.preventDefault();
  search.focus();
  search.select();
});
PHONE.addEventListener("change", () => {
  for (const each of document.querySelectorAll(".filters details, details.folds")) each.open = !PHONE.matches;
});
onSystem(drawHead);
addEventListener("resize", () => { if (shown.route.view === "overview") drawMain(); }); // the map is as wide as the page
document.getElementById("skip").addEventListener("click", event => {
  event.preventDefault(); // the fragment of the address is the view
  document.getElementById("main").focus();
});
addEventListener("submit", event => event.preventDefault());
addEventListener("hashchange", arrive);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(timer);
  else if (!shown.paused) refresh();
});

drawHead();
drawMain();
refresh();
