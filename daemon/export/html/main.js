// Builds the page from its data. window.profdReport is for the console, and for tests.
"use strict";

(() => {
  const { el, fill } = Dom;
  const DATA_VERSION = 2;
  const data = JSON.parse(document.getElementById("data").textContent);
  const report = document.getElementById("report");
  if (data.version !== DATA_VERSION) throw new Error(`data of version ${data.version}`);

  Format.trustShares(data.shares);

  // ---- theme ----

  // The system's, unless one was chosen here; not kept: files have no storage of their own.
  const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
  let chosenTheme = "auto";
  function applyTheme() {
    const dark = chosenTheme === "dark" || (chosenTheme === "auto" && systemIsDark.matches);
    document.documentElement.setAttribute("data-theme", dark ? "dark" : "light");
    Charts.drawAll();
  }
  function setTheme(theme) {
    chosenTheme = theme;
    applyTheme();
  }
  const THEMES = [{ value: "auto", label: "Auto" }, { value: "light", label: "Light" }, { value: "dark", label: "Dark" }];
  fill(document.getElementById("theme"), Dom.choice("Theme", THEMES, "auto", setTheme));
  systemIsDark.addEventListener("change", applyTheme);
  applyTheme();

  // ---- sections ----

  const tables = {};
  let time = null;
  let memory = null;

  // Where a finding's evidence leads: {href, act}; null: nowhere on this page.
  function follow(evidence) {
    const toTable = (table, section) => (table && table.has(evidence.name)
      ? { href: `#${section}`, act: () => table.showOnly(evidence.name) } : null);
    const toStep = () => (time && evidence.step !== null
      ? { href: "#time", act: () => time.choose(evidence.step) } : null);
    switch (evidence.kind) {
      case "op": return toTable(tables.ops, "operators");
      case "kernel": return toTable(tables.kernels, "kernels");
      case "copy": return toTable(tables.copies, "copies");
      case "call": return toTable(tables.syncs, "waits");
      case "collective": return toTable(tables.collectives, "collectives");
      case "step":
      case "gap": return toStep();
      case "memory": return memory ? { href: "#memory", act: () => {} } : null;
      case "code": return data.compile ? { href: "#compile", act: () => {} } : null;
      case "check": return { href: "#quality", act: () => {} };
      default: return null;
    }
  }

  function build() {
    const sections = [];
    const add = (id, title, content) => sections.push({ id, title, content });
    const addTables = (id, title, section) => {
      Object.assign(tables, section.tables);
      add(id, title, section.content);
    };
    time = Sections.time(data);
    const has = (table) => Object.values(table || {}).some((column) => column.length > 0);
    addTables("operators", "Operators", Sections.ops(data));
    if (data.modules) addTables("modules", "Modules", Sections.modules(data));
    if (has(data.flame.host.stacks)) add("flame", "Flame view", new FlameView(data.flame).element);
    if (data.kernels) addTables("kernels", "Kernels", Sections.kernels(data));
    if (data.copies && has(data.copies.rows)) addTables("copies", "Copies", Sections.copies(data));
    if (has(data.syncs)) addTables("waits", "Waits for the GPU", Sections.waits(data));
    if (has(data.collectives)) addTables("collectives", "Collectives", Sections.collectives(data));
    if (data.memory.length > 0 || data.out_of_memory.length > 0) memory = Sections.memory(data);
    if (memory && data.memory.length > 0) add("memory", "Memory", memory.content);
    if (data.compile) addTables("compile", "Compiled code", Sections.compile(data));
    add("quality", "Quality", Overview.quality(data));
    add("about", "This capture", Overview.about(data));
    // These stand first, and link to what stands behind them.
    sections.unshift(
      { id: "findings", title: "Findings", content: Overview.findings(data, follow) },
      { id: "time", title: "Time", content: time.content });
    return sections;
  }

  function section({ id, title, content }) {
    return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), content);
  }

  function footer() {
    const licence = document.getElementById("licence").content.textContent;
    return el("footer", {}, el("details", {}, el("summary", {}, "Licence of the chart library"), el("pre", {}, licence)));
  }

  // ---- navigation ----

  function navigation(sections) {
    const links = sections.map(({ id, title }) => el("a", { href: `#${id}` }, title));
    fill(document.getElementById("nav"), links.map((link) => el("li", {}, link)));
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        for (const link of links) {
          const here = link.getAttribute("href") === `#${entry.target.id}`;
          if (here) link.setAttribute("aria-current", "true");
          else link.removeAttribute("aria-current");
        }
      }
    }, { rootMargin: "-10% 0px -80% 0px" });
    for (const node of report.querySelectorAll("section")) watcher.observe(node);
  }

  const sections = [{ id: "overview", title: "Overview" }, ...build()];
  document.title = `${data.capture.name || data.capture.imported.source || data.capture.id} – profd report`;
  fill(report, Overview.header(data),
    el("section", { id: "overview", "aria-label": "Overview" }, el("p", { class: "verdict" }, data.verdict),
      Overview.lossNote(data), Overview.tiles(data)),
    sections.slice(1).map(section), footer());
  navigation(sections);
  time.draw();
  if (memory && data.memory.length > 0) memory.draw();
  window.profdReport = { data, tables, time, memory };
})();
