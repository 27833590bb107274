// Flame views: time by stack. What calls is above what it calls, and each is as wide as its time.
//
//   new FlameView({
//     frames: ["main", "train.py(12): step", ...],
//     host: {stack_count: 3, stacks: {frame: [0, 1, 1], caller: [-1, 0, 0], total_ns: [9, 5, 2]}},
//     device: ...   // Where there is GPU work.
//   }).element
//
// A click shows a stack as wide as the view, and what called it above it. Keys: arrows go to callers, to
// what is called, and to neighbours; Enter is a click; Escape shows all.
"use strict";

const FlameView = (() => {
  const { el, fill, choice } = Dom;
  // Narrower ones are not drawn, as a share of the view.
  const NARROWEST = 0.0008;
  const ROW_REM = 1.4;

  const kindOf = (text) =>
    (/^nn\.Module: /.test(text) ? "module" : /\(\d+\): /.test(text) ? "python" : "other");

  // The stacks of a view as a tree, with the largest first among those of one caller.
  function treeOf(view, frames) {
    const root = { text: "All", kind: "other", total: 0, caller: null, called: [], start: 0, depth: 0 };
    const nodes = rowsOf(view.stacks).map((row) =>
      ({ text: frames[row.frame], kind: kindOf(frames[row.frame]), total: row.total_ns, callerAt: row.caller, called: [] }));
    for (const node of nodes) {
      node.caller = node.callerAt < 0 ? root : nodes[node.callerAt];
      node.caller.called.push(node);
      if (node.caller === root) root.total += node.total;
    }
    // Callers come first.
    for (const node of [root, ...nodes]) {
      node.called.sort((a, b) => b.total - a.total);
      let start = node.start;
      for (const inner of node.called) {
        inner.start = start;
        inner.depth = node.depth + 1;
        start += inner.total;
      }
    }
    return { root, nodes };
  }

  return class FlameView {
    constructor(flame) {
      this.flame = flame;
      this.input = el("input", {
        type: "search", placeholder: "Mark frames", "aria-label": "Mark frames",
        oninput: () => this.mark(this.input.value),
      });
      this.found = el("span", { class: "muted", role: "status" });
      this.reset = el("button", { type: "button", class: "quiet", onclick: () => this.show(this.tree.root) }, "Show all");
      this.plot = el("div", { class: "flame", role: "group", "aria-label": "Time by stack", onkeydown: (event) => this.key(event) });
      this.about = el("p", { class: "note", "aria-live": "polite" });
      this.note = el("p", { class: "note" });
      const views = [{ value: "host", label: "Host" }, { value: "device", label: "GPU" }].filter(({ value }) => flame[value]);
      this.element = el("div", {},
        el("div", { class: "toolbar" },
          views.length > 1 ? choice("Time of", views, "host", (name) => this.choose(name)) : null,
          this.input, this.found, el("span", { class: "grow" }), this.reset),
        this.plot, this.about, this.note);
      this.choose("host");
    }

    choose(name) {
      const view = this.flame[name];
      this.tree = treeOf(view, this.flame.frames);
      const left = view.stack_count - this.tree.nodes.length;
      fill(this.note, left > 0
        ? `${Format.count(left)} of ${Format.count(view.stack_count)} stacks, which took least, are left out: profctl export -o FILE.folded has all of them.` : null);
      this.mark(this.input.value);
    }

    // As wide as the view.
    show(node, focus) {
      this.shown = node;
      this.reset.disabled = node === this.tree.root;
      this.drawn = [];
      const around = [];
      for (let at = node.caller; at; at = at.caller) around.push(at);
      for (const caller of around.reverse()) this.draw(caller, 0, 1);
      const open = [node];
      while (open.length > 0) {
        const at = open.pop();
        const width = at === node ? 1 : at.total / node.total;
        if (!(width >= NARROWEST)) continue;
        this.draw(at, at === node ? 0 : (at.start - node.start) / node.total, width);
        open.push(...at.called);
      }
      fill(this.plot, this.drawn.map(({ button }) => button));
      this.plot.style.setProperty("height", `${(1 + Math.max(...this.drawn.map((one) => one.node.depth))) * ROW_REM}rem`);
      this.select(node, focus);
    }

    draw(node, left, width) {
      const button = el("button", {
        type: "button", tabIndex: -1,
        class: `flame-${node.kind}${this.marked.has(node) ? " marked" : ""}${node.depth < this.shown.depth ? " around" : ""}`,
        title: this.describe(node),
        style: { left: `${100 * left}%`, width: `${100 * width}%`, top: `${node.depth * ROW_REM}rem` },
        onclick: () => this.show(node, true),
        onfocus: () => this.select(node),
        onmouseenter: () => fill(this.about, this.describe(node)),
      }, node.text);
      this.drawn.push({ node, button });
    }

    describe(node) {
      return `${node.text}: ${Format.ns(node.total)}, ${Format.share(node.total, this.tree.root.total)}`;
    }

    // The one that Tab leads to, and keys start from.
    select(node, focus) {
      this.selected = node;
      for (const one of this.drawn) one.button.tabIndex = one.node === node ? 0 : -1;
      fill(this.about, this.describe(node));
      const at = this.drawn.find((one) => one.node === node);
      if (focus && at) at.button.focus();
    }

    key(event) {
      const node = this.selected;
      const beside = node.caller ? node.caller.called : [];
      const next = {
        ArrowUp: node.caller, ArrowDown: node.called[0],
        ArrowLeft: beside[beside.indexOf(node) - 1], ArrowRight: beside[beside.indexOf(node) + 1],
      };
      if (event.key === "Escape") this.show(this.tree.root, true);
      else if (event.key in next) {
        if (next[event.key] && this.drawn.some((one) => one.node === next[event.key])) this.select(next[event.key], true);
      } else return;
      event.preventDefault();
    }

    // Marks the frames that have `text`, and says what they took together; frames inside of a marked one
    // are in its time.
    mark(text) {
      const word = text.trim().toLowerCase();
      this.marked = new Set();
      let total = 0;
      const open = word === "" ? [] : this.tree.root.called.map((node) => ({ node, inside: false }));
      while (open.length > 0) {
        const { node, inside } = open.pop();
        const has = node.text.toLowerCase().includes(word);
        if (has) this.marked.add(node);
        if (has && !inside) total += node.total;
        open.push(...node.called.map((inner) => ({ node: inner, inside: inside || has })));
      }
      this.found.textContent = word === "" ? ""
        : `${Format.count(this.marked.size)} stacks, ${Format.ns(total)}, ${Format.share(total, this.tree.root.total)}`;
      const isHere = this.shown && (this.shown === this.tree.root || this.tree.nodes.includes(this.shown));
      this.show(isHere ? this.shown : this.tree.root);
    }
  };
})();
