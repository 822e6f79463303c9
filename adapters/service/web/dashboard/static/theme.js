// Light or dark: as the system has it, or as a person chose in this browser.

import {storage} from "./text.js";

const KEY = "dragoman.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;
const kept = storage(store => store.getItem(KEY));
if (kept) root.dataset.theme = kept;

export const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

export function switchTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  storage(store => store.setItem(KEY, root.dataset.theme));
}

/** Call a function whenever the system changes between light and dark. */
export const onSystem = changed => system.addEventListener("change", changed);
