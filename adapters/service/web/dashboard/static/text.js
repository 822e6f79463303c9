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

/** Work with what the browser keeps; null where it keeps nothing. */
export function storage(work) {
  try { return work(localStorage); } catch { return null; }
}

export const speaks = () => language;

export function speak(other) {
  language = other in LANGUAGES ? other : "en";
  storage(store => store.setItem(KEY, language));
}

/** A text; {name} in it is replaced, and {name|pod|pods} by the number with the word that goes with it. */
export function t(key, values = {}) {
  const text = LANGUAGES[language][key] ?? en[key] ?? key;
  return text.replace(/\{(\w+)(?:\|(\w+)\|(\w+))?\}/g, (_, name, one, many) =>
    one ? `${values[name]} ${String(values[name]) === "1" ? one : many}` : values[name] ?? "");
}

export const number = value => format(value, {});

const locale = () => language === "zh" ? "zh-CN" : "en";
const made = new Map(); // formatters: making one takes longer than all else here

function format(value, options) {
  const key = locale() + JSON.stringify(options);
  if (!made.has(key)) made.set(key, new Intl.NumberFormat(locale(), options));
  return made.get(key).format(value);
}

const TIB = 10 * 1024 * 1024;

/** MiB as GiB, from ten TiB on as TiB; `unit` is that of the larger amount beside it. */
const scaled = (mib, unit = mib) => unit >= TIB ? [mib / 1024 / 1024, "TiB"] : [mib / 1024, "GiB"];

const rounded = value => format(value, {maximumFractionDigits: value < 100 ? 1 : 0});

/** An amount with its unit: "40 GiB", "22.5 GiB", "2,782 GiB", "28.7 TiB". */
export function gib(mib) {
  const [value, unit] = scaled(mib);
  return `${rounded(value)} ${unit}`;
}

/** An amount of another one, in the unit of the larger: {granted: "4", memory: "22.5 GiB"}. */
export function ofGib(granted, memory) {
  return {granted: rounded(scaled(granted, memory)[0]), memory: gib(memory)};
}

export const percent = (part, all) => `${all ? Math.floor(100 * part / all) : 0}%`;

export const clock = date => new Intl.DateTimeFormat(language === "zh" ? "zh-CN" : "en-GB",
  {hour: "2-digit", minute: "2-digit", second: "2-digit"}).format(date);

/** How long ago a moment was, in its largest unit. */
export function age(iso) {
  const seconds = Math.max(0, Math.round((Date.now() - new Date(iso)) / 1000));
  const [unit, value] = seconds < 120 ? ["second", seconds] : seconds < 7200 ? ["minute", seconds / 60]
    : seconds < 172800 ? ["hour", seconds / 3600] : ["day", seconds / 86400];
  return format(value, {style: "unit", unit, maximumFractionDigits: 0});
}

export const moment = iso => new Intl.DateTimeFormat(language === "zh" ? "zh-CN" : "en-GB",
  {month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit"}).format(new Date(iso));
