// Elements. No HTML text is ever parsed: names of pods and nodes are text nodes.

/** An element: h("div.card", {title: "x"}, child, ...). `style` has CSS properties; null children are left out. */
export function h(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "style") for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}
