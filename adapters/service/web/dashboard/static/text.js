// Texts of the page in the language of the person. Texts of the service are English; reasons.js translates reasons.

import en from "./en.js";
import zh from "./zh.js";

const LANGUAGES = {en, zh};
const KEY = "dragoman.language";

export const NAMES = {en: "English", zh: "中文"};

let language = chosen();

function chosen() {
  const stored = storage(store => store.getItem(KEY));
  const wanted = [stored, ...navigator.languages].map(each => (each ?? "").slice(0, 2).toLowerCase());
  return wanted.find(each => each in LANGUAGES) ?? "en";
}

function storage(work) {
  try { return work(localStorage); } catch { return null; }
}

export const speaks = () => language;

export function speak(other) {
  language = other in LANGUAGES ? other : "en";
  storage(store => store.setItem(KEY, language));
}

/** A text; {name} in it is replaced. */
export function t(key, values = {}) {
  const text = LANGUAGES[language][key] ?? en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

export const number = value => new Intl.NumberFormat(language === "zh" ? "zh-CN" : "en").format(value);

const one = new Map();
export const gib = mib => {
  if (!one.has(language)) one.set(language, new Intl.NumberFormat(language === "zh" ? "zh-CN" : "en",
    {minimumFractionDigits: 1, maximumFractionDigits: 1}));
  return one.get(language).format(mib / 1024);
};

export const clock = date => new Intl.DateTimeFormat(language === "zh" ? "zh-CN" : "en-GB",
  {hour: "2-digit", minute: "2-digit", second: "2-digit"}).format(date);

/** How long ago a moment was, in its largest unit. */
export function age(iso) {
  const seconds = Math.max(0, Math.round((Date.now() - new Date(iso)) / 1000));
  const [unit, value] = seconds < 120 ? ["second", seconds] : seconds < 7200 ? ["minute", seconds / 60] : ["hour", seconds / 3600];
  return new Intl.NumberFormat(language === "zh" ? "zh-CN" : "en", {style: "unit", unit, maximumFractionDigits: 0}).format(value);
}

export const moment = iso => new Intl.DateTimeFormat(language === "zh" ? "zh-CN" : "en-GB",
  {month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit"}).format(new Date(iso));
