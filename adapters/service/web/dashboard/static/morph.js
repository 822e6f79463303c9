// Changes a part of the page into another one and keeps what is equal: selection, focus and scroll stay.

/** Give `target` the attributes and children of `wanted`. */
export function morph(target, wanted) {
  attributes(target, wanted);
  children(target, [...wanted.childNodes]);
  form(target, wanted);
}

function attributes(target, wanted) {
  for (const {name} of [...target.attributes])
    if (name !== "style" && name !== "open" && !wanted.hasAttribute(name)) target.removeAttribute(name);
  for (const {name, value} of wanted.attributes)
    if (name !== "style" && name !== "open" && target.getAttribute(name) !== value) target.setAttribute(name, value);
  if (target.style.cssText !== wanted.style.cssText) target.style.cssText = wanted.style.cssText;
}

function children(target, wanted) {
  const keyed = new Map();
  for (const child of target.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
  const kept = new Set(wanted.map(child => child.dataset?.key).filter(Boolean));
  let place = target.firstChild;
  for (const child of wanted) {
    while (place && place.dataset?.key && !kept.has(place.dataset.key)) place = removed(place);
    const key = child.dataset?.key;
    const same = key ? keyed.get(key) : place && !place.dataset?.key && place.nodeName === child.nodeName ? place : null;
    if (!same) target.insertBefore(child, place);
    else {
      if (same === place) place = place.nextSibling;
      else target.insertBefore(same, place);
      if (same.nodeType === Node.TEXT_NODE) {
        if (same.data !== child.data) same.data = child.data;
      } else if (same.nodeName === child.nodeName) morph(same, child);
      else same.replaceWith(child);
    }
  }
  while (place) place = removed(place);
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

/** What a person is typing stays. */
function form(target, wanted) {
  if (!("value" in wanted) || target === document.activeElement || target.nodeName === "BUTTON") return;
  if (target.nodeName === "LI" || target.value === wanted.value) return;
  target.value = wanted.value;
}
