// The address: #/overview, #/nodes?q=a&sort=free, #/node/NAME, #/pod/NAMESPACE/NAME. Addresses can be shared.

const VIEWS = ["overview", "nodes", "node", "pods", "pod", "pending", "moves", "decisions"];

/** What the address asks for: {view, name, parameters}. */
export function current() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [view, ...rest] = path.split("/");
  const parameters = Object.fromEntries(new URLSearchParams(query));
  if (!VIEWS.includes(view)) return {view: "overview", name: "", parameters: {}};
  return {view, name: rest.map(part => safely(decodeURIComponent, part)).join("/"), parameters};
}

function safely(decode, text) {
  try { return decode(text); } catch { return text; }
}

/** The address of a view. */
export function address(view, name = "", parameters = {}) {
  const path = name ? "/" + name.split("/").map(encodeURIComponent).join("/") : "";
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "")).toString();
  return `#/${view}${path}${query ? "?" + query : ""}`;
}

/** Go there; `silently` leaves no step behind in the browser's history. */
export function go(to, silently = false) {
  if (!silently) { location.hash = to; return; }
  history.replaceState(null, "", to);
  dispatchEvent(new HashChangeEvent("hashchange"));
}
