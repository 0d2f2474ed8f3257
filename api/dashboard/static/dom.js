// What the panels make elements with. Whatever comes from outside is put in as text.

// el makes an element. Of its properties, class, text and dataset are what they say, on… are
// listeners, and all others are attributes; null ones are left out.
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else if (name === "dataset") Object.assign(node.dataset, value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

// say changes an element's text where it is another.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// tell changes the text and the exact value of a data element.
export function tell(node, text, value) {
  say(node, text);
  attr(node, "value", value === undefined || value === null ? null : String(value));
}

// attr sets an attribute where it is another; null takes it away.
export function attr(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

// keyed makes parent's children those of the items, in order. What is there already is kept,
// so that what is focused or open stays so. make returns {node, update}.
export function keyed(parent, items, keyOf, make) {
  const old = parent.keyedChildren ?? new Map();
  const kept = new Map();
  let at = parent.querySelector(":scope > thead")?.nextSibling ?? (parent.tHead ? null : parent.firstChild);
  for (const item of items) {
    const key = keyOf(item);
    const child = old.get(key) ?? make(item);
    kept.set(key, child);
    child.update(item);
    if (child.node === at) at = at.nextSibling;
    else parent.insertBefore(child.node, at);
  }
  for (const [key, child] of old) if (!kept.has(key)) child.node.remove();
  parent.keyedChildren = kept;
}

// meter is a bar that shows a part of a whole, with the text beside it.
export function meter(label) {
  const fill = el("span", { class: "fill" });
  const bar = el("span", { class: "meter", "aria-hidden": "true" }, fill);
  const value = el("data", {});
  const node = el("span", { class: "metered" }, value, bar);
  return {
    node,
    // show takes the part, 0–1, or null where it is not known.
    show(part, text, exact) {
      tell(value, text, exact);
      bar.hidden = part === null;
      const width = `${(100 * Math.min(1, Math.max(0, part ?? 0))).toFixed(1)}%`;
      if (fill.style.width !== width) fill.style.width = width;
      attr(bar, "data-level", part >= 0.999 ? "full" : part >= 0.8 ? "high" : null);
    },
    label,
  };
}

// empty is what a panel shows where there is nothing to show.
export function empty(title, text, code) {
  return el("div", { class: "empty" }, el("p", { class: "empty-title", text: title }), el("p", { text }), code ? el("pre", { tabindex: "0" }, el("code", { text: code })) : null);
}
