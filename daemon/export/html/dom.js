// Elements made of text and other elements. Nothing here, or anywhere in these scripts, reads text as
// markup: names of a capture may hold any.
"use strict";

const Dom = (() => {
  const PROPERTIES = new Set(["type", "value", "checked", "disabled", "hidden", "open", "tabIndex"]);

  function apply(node, key, value) {
    if (value === undefined || value === null || value === false) return;
    if (key === "class") node.className = value;
    else if (key === "style") for (const name in value) node.style.setProperty(name, value[name]);
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (PROPERTIES.has(key)) node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }

  // el("td", {class: "number"}, "text", otherElement, [more], null)
  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const key in attributes) apply(node, key, attributes[key]);
    node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
    return node;
  }

  function fill(node, ...children) {
    node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
    return node;
  }

  // A choice of one of `options` ([{value, label}]), as a row of buttons.
  function choice(label, options, chosen, onChange) {
    const buttons = options.map((option) =>
      el("button", {
        type: "button",
        "aria-pressed": String(option.value === chosen),
        onclick: () => {
          buttons.forEach((button, i) =>
            button.setAttribute("aria-pressed", String(options[i].value === option.value)));
          onChange(option.value);
        },
      }, option.label));
    return el("div", { class: "choice", role: "group", "aria-label": label }, buttons);
  }

  function select(label, options, chosen, onChange) {
    const node = el("select", { "aria-label": label, onchange: () => onChange(node.value) },
      options.map((option) => el("option", { value: option.value }, option.label)));
    node.value = chosen;
    return node;
  }

  // Pairs of a name and what it is; those that are null are left out.
  function facts(pairs) {
    return el("dl", { class: "facts" },
      pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
        .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
  }

  // Saves `text` as a file of this name, without a network.
  function download(name, type, text) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    el("a", { href: url, download: name }).click();
    URL.revokeObjectURL(url);
  }

  return { el, fill, choice, select, facts, download };
})();
