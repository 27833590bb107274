// The sections with charts and tables.
"use strict";

const Sections = (() => {
  const { el, fill, choice, select, facts } = Dom;

  const NAME = { key: "name", label: "Name", kind: "name" };
  const tableOf = (options) => new DataTable(options);
  const titled = (title, ...content) => el("div", { class: "block" }, el("h3", {}, title), content);

  // ---- time ----

  function breakdownBar(whole) {
    const parts = StepCharts.PARTS.filter((part) => whole[part.key] > 0);
    const share = (part) => Format.share(whole[part.key], whole.kernel_time_ns);
    const piece = (part) => el("span", {
      title: `${part.label}: ${share(part)}`,
      style: { width: `${(100 * whole[part.key]) / whole.kernel_time_ns}%`, background: `var(--${part.colour})` },
    });
    return el("div", { class: "breakdown" },
      Format.saysShares() ? el("div", { class: "breakdown-bar", "aria-hidden": "true" }, parts.map(piece)) : null,
      el("ul", { class: "legend" }, parts.map((part) => el("li", {},
        el("span", { class: "swatch", style: { background: `var(--${part.colour})` } }),
        el("span", {}, part.label), el("strong", {}, share(part)),
        el("span", { class: "muted" }, Format.ns(whole[part.key]))))));
  }

  function stepFacts(bar, hasDevice) {
    const part = (label, key) => [label, bar[key] === undefined ? null : `${Format.ns(bar[key])} (${Format.share(bar[key], bar.duration_ns)})`];
    const host = (label, key) => [label, bar[key] > 0 ? Format.ns(bar[key]) : null];
    return el("div", { class: "step-facts" },
      el("h4", {}, `Step ${StepCharts.nameOf(bar)}: ${Format.ns(bar.duration_ns)}`),
      facts([
        ...(hasDevice ? StepCharts.PARTS.map((piece) => part(piece.label, piece.key)) : []),
        ["Launches", hasDevice ? Format.count(bar.launch_count) : null],
        ["Waits for the GPU", hasDevice ? `${Format.count(bar.sync_count)}, ${Format.ns(bar.sync_ns)}` : null],
        host("Waiting for data", "data_loader_ns"),
        host("Host in operators", "host_operators_ns"),
        host("Host in collectives", "host_collectives_ns"),
        host("Host waiting for the GPU", "host_gpu_wait_ns"),
        host("Host outside operators", "host_outside_ns"),
        host("Compiling", "compile_ns"),
      ]));
  }

  // The step charts of one device. Returns {element, choose(step number)}.
  function stepCharts(time) {
    const bars = rowsOf(time.steps);
    const state = { shares: false, chosen: null };
    const main = Charts.placeFor(), idle = Charts.placeFor();
    const chosen = el("div", { "aria-live": "polite" });
    const choose = (index) => {
      state.chosen = state.chosen === index ? null : index;
      fill(chosen, state.chosen === null ? null : stepFacts(bars[index], time.has_device));
      for (const place of [main, idle]) if (place.current) place.current.chart.update();
    };
    const draw = () => {
      Charts.show(main, StepCharts.chart({
        label: "Time of each step by what the device did", bars, state, onChoose: choose, line: true,
        parts: time.has_device ? StepCharts.PARTS : StepCharts.HOST_PART,
      }));
      if (!time.has_device) return;
      Charts.show(idle, StepCharts.chart({
        label: "Idle time of each step by cause", bars, state, onChoose: choose, parts: StepCharts.IDLE_PARTS,
      }));
    };
    const merged = time.step_count > bars.length
      ? el("p", { class: "note" }, `${Format.count(time.step_count)} steps: each bar is the mean of up to ${Math.ceil(time.step_count / bars.length)} steps.`) : null;
    const element = el("div", {},
      el("div", { class: "toolbar" },
        time.has_device && Format.saysShares() ? choice("Unit", [{ value: false, label: "Time" }, { value: true, label: "Share" }], state.shares,
          (value) => { state.shares = value; draw(); }) : null,
        el("span", { class: "muted" }, "Choose a bar for its figures.")),
      merged, main.node, chosen,
      time.has_device ? titled("Why the GPU was idle", idle.node) : null);
    const chooseStep = (step) => {
      const index = bars.findIndex((bar) => step >= bar.first && step <= bar.last);
      if (index >= 0 && state.chosen !== index) choose(index);
    };
    return { element, draw, choose: chooseStep };
  }

  function launchFacts(launches) {
    const of = (count) => `${Format.count(count)} (${Format.share(count, launches.count)})`;
    return facts([
      ["Launches", Format.count(launches.count)],
      ["Time in the calls", Format.ns(launches.call_ns)],
      ["Median delay to the start", Format.ns(launches.median_delay_ns)],
      ["Work shorter than its call", of(launches.shorter_than_call_count)],
      ["Started over 100 µs late", of(launches.late_count)],
      ["Kernels below 10 µs", `${Format.count(launches.short_kernel_count)} of ${Format.count(launches.kernel_count)}, ${Format.ns(launches.short_kernel_ns)}`],
    ]);
  }

  function launchTables(time) {
    const ops = rowsOf(time.launching_ops).map((row) => ({ ...row, name: row.name || "(outside any range)" }));
    return titled("Launches", launchFacts(time.launches),
      ops.length === 0 ? null : tableOf({
        name: "launching operators", rows: ops, sort: "host_wait_ns", total: time.launching_op_count,
        columns: [{ ...NAME, label: "Operator" },
          { key: "host_wait_ns", label: "Idle, waiting for it", kind: "ns", bar: true, help: "The device was idle because a launch of this operator came late" },
          { key: "launch_count", label: "Launches", kind: "count" },
          { key: "call_ns", label: "In the calls", kind: "ns" },
          { key: "device_ns", label: "Device time", kind: "ns" },
          { key: "short_kernel_count", label: "Short kernels", kind: "count", help: "Below 10 µs" },
          { key: "launch_bound", label: "Launch-bound", kind: "flag", help: "Launching took the host longer than the work took the device" }],
      }).element);
  }

  function streamTable(time) {
    return titled("Streams", tableOf({
      name: "streams", sort: "busy_ns",
      rows: rowsOf(time.streams).map((row) => ({ ...row, name: String(row.stream) })),
      columns: [{ ...NAME, label: "Stream" },
        { key: "busy_ns", label: "Busy", kind: "ns", bar: true },
        { key: "idle_ns", label: "Idle", kind: "ns", help: "Gaps of the stream by itself, between its first and last activity" },
        { key: "host_wait_ns", label: "Host wait", kind: "ns" },
        { key: "kernel_wait_ns", label: "Kernel wait", kind: "ns" },
        { key: "other_ns", label: "Other", kind: "ns" },
        { key: "activity_count", label: "Activities", kind: "count" }],
    }).element);
  }

  function deviceTime(time) {
    const steps = time.step_count > 0 ? stepCharts(time) : null;
    const element = el("div", {},
      time.has_device ? titled("The whole capture", breakdownBar(time.whole)) : null,
      steps ? titled("By step", steps.element)
        : el("p", { class: "empty" }, "No steps were marked, so there is no chart by step."),
      time.has_device ? streamTable(time) : null,
      time.has_device ? launchTables(time) : null);
    return { element, draw: () => steps && steps.draw(), choose: (step) => steps && steps.choose(step) };
  }

  function time(data) {
    const node = el("div");
    // Once made, a device's part stays as it was left.
    const made = [];
    let current = null;
    const show = (index) => {
      current = made[index] || (made[index] = deviceTime(data.time[index]));
      fill(node, current.element);
      current.draw();
    };
    const devices = data.time.map((one, i) => ({ value: String(i), label: `Device ${one.device}` }));
    const left = data.device_count - data.time.length;
    return {
      content: [
        devices.length > 1 ? el("div", { class: "toolbar" },
          select("Device", devices, "0", (value) => show(Number(value))),
          left > 0 ? el("span", { class: "muted" }, `${left} more devices, which did less, are left out`) : null) : null,
        node],
      draw: () => show(0),
      choose: (step) => current && current.choose(step),
    };
  }

  // ---- tables ----

  // Columns with a bar. The first of them that a table has sorts it.
  const BARS = ["busy_device_ns", "self_device_ns", "total_ns", "self_cpu_ns"];

  // Shares are withheld, or marked, where events were lost.
  function describedColumns(data, columns) {
    return columns.filter((column) => column.kind !== "share" || Format.saysShares()).map((column) => ({
      ...column,
      kind: column.kind === "share" ? "percent" : column.kind,
      label: column.kind === "share" && data.shares === "marked" ? `≈ ${column.label}` : column.label,
      bar: BARS.includes(column.key),
    }));
  }

  // A table that comes with its columns described.
  function describedTable(data, name, source) {
    return tableOf({
      name, rows: rowsOf(source.rows), total: source.row_count, note: source.notes.join(". "),
      sort: BARS.find((key) => source.columns.some((column) => column.key === key)),
      columns: describedColumns(data, source.columns),
    });
  }

  function ops(data) {
    const byName = describedTable(data, "operators", data.ops);
    const byInputs = data.ops_by_inputs ? describedTable(data, "operators by inputs", data.ops_by_inputs) : null;
    const node = el("div", {}, byName.element);
    if (!byInputs) return { tables: { ops: byName }, content: [node] };
    const views = [{ value: false, label: "By name" }, { value: true, label: "By inputs" }];
    const chooser = choice("Rows", views, false, (inputs) => fill(node, (inputs ? byInputs : byName).element));
    byName.onShowOnly = () => chooser.firstChild.click();
    return { tables: { ops: byName, ops_by_inputs: byInputs }, content: [el("div", { class: "toolbar" }, chooser), node] };
  }

  function described(data, name) {
    const table = describedTable(data, name, data[name]);
    return { tables: { [name]: table }, content: [table.element] };
  }

  // In the order of the tree, until a column sorts them.
  function modules(data) {
    const { rows, row_count, notes, columns } = data.modules;
    const table = tableOf({
      name: "modules", rows: rowsOf(rows), total: row_count, note: notes.join(". "), indent: "depth",
      columns: describedColumns(data, columns.filter((column) => column.key !== "depth")),
    });
    return { tables: { modules: table }, content: [table.element] };
  }

  const kernels = (data) => described(data, "kernels");
  const copies = (data) => described(data, "copies");

  function waits(data) {
    const syncs = tableOf({
      name: "waits", rows: rowsOf(data.syncs), sort: "total_ns", total: data.sync_row_count,
      columns: [{ ...NAME, label: "Call" },
        { key: "cause", label: "Cause", kind: "text", help: "item: .item(), bool(tensor); copy: .cpu(), .to(); allocator: cudaMalloc, cudaFree" },
        { key: "op", label: "Operator", kind: "text" },
        { key: "where", label: "In", kind: "text" },
        { key: "total_ns", label: "Total", kind: "ns", bar: true },
        { key: "count", label: "Count", kind: "count" },
        { key: "per_step", label: "A step", kind: "number" },
        { key: "max_ns", label: "Longest", kind: "ns" }],
    });
    return { tables: { syncs }, content: [syncs.element] };
  }

  function collectives(data) {
    const table = tableOf({
      name: "collectives", rows: rowsOf(data.collectives), sort: "exposed_ns",
      columns: [NAME,
        { key: "group_size", label: "Ranks", kind: "count" },
        { key: "bytes", label: "Size", kind: "bytes" },
        { key: "count", label: "Count", kind: "count" },
        { key: "exposed_ns", label: "Exposed", kind: "ns", bar: true, help: "Nothing hid it" },
        { key: "total_ns", label: "Total", kind: "ns", bar: true },
        { key: "max_ns", label: "Longest", kind: "ns" },
        { key: "bus_gb_per_s", label: "Bus GB/s", kind: "number", help: "Of the fastest, comparable with the speed of the links" }],
    });
    return { tables: { collectives: table }, content: [table.element] };
  }

  function compile(data) {
    const regions = tableOf({
      name: "compiled regions", rows: rowsOf(data.compile.regions), sort: "total_ns",
      columns: [{ ...NAME, label: "Region" }, { key: "code", label: "Code", kind: "text" },
        { key: "total_ns", label: "Total", kind: "ns", bar: true }, { key: "calls", label: "Calls", kind: "count" },
        { key: "after_graph_break", label: "Behind a break", kind: "flag" }],
    });
    const places = (title, name, rows, more) => (rows.length === 0 ? null : titled(title, tableOf({
      name, rows, sort: "count",
      columns: [{ ...NAME, label: "Where" }, { key: "reason", label: "Why", kind: "text" },
        { key: "count", label: "Count", kind: "count" }, ...more],
    }).element));
    return {
      tables: {},
      content: [titled("Compiled regions", regions.element),
        places("Graph breaks", "graph breaks", rowsOf(data.compile.graph_breaks), []),
        places("Recompilations", "recompilations", rowsOf(data.compile.recompiles),
          [{ key: "compile_ns", label: "Compile time", kind: "ns" }])],
    };
  }

  // ---- memory ----

  function sharesTable(title, name, shares, older) {
    const rows = rowsOf(shares).map((row) => ({ ...row, name: name === "categories" || name === "lifetimes" ? Format.words(row.name) : row.name }));
    if (older > 0) rows.push({ name: "(allocated before the window)", bytes: older, blocks: -1 });
    if (rows.length === 0) return null;
    return titled(title, tableOf({
      name: `${name} at the peak`, rows, sort: "bytes",
      columns: [NAME, { key: "bytes", label: "At the peak", kind: "bytes", bar: true }, { key: "blocks", label: "Blocks", kind: "count" }],
    }).element);
  }

  function memoryFacts(device) {
    const growth = device.growth;
    const held = device.reserved_at_peak_bytes - device.peak_bytes;
    const sign = growth.bytes_per_step > 0 ? "+" : "";
    return facts([
      ["Peak", `${Format.bytes(device.peak_bytes)} at ${Format.ns(device.peak_time_ns)}`],
      ["At the start", Format.bytes(device.start_bytes)],
      ["At the end", Format.bytes(device.end_bytes)],
      ["Reserved, at most", device.peak_reserved_bytes >= 0 ? Format.bytes(device.peak_reserved_bytes) : null],
      ["Reserved, unused at the peak", device.reserved_at_peak_bytes > 0 ? `${Format.bytes(held)} (${Format.percent(held / device.reserved_at_peak_bytes)})` : null],
      ["Of the device", device.capacity_bytes > 0 ? Format.bytes(device.capacity_bytes) : null],
      ["Growth", growth.known ? `${sign}${Format.bytes(growth.bytes_per_step)} a step, over ${growth.step_count} steps` : null],
      ["Allocations", `${Format.count(device.allocation_count)}, ${Format.bytes(device.allocated_total_bytes)} in all`],
    ]);
  }

  function memoryNotes(device) {
    const notes = [];
    if (device.relative) notes.push(`Relative to the window start: the total of the process was not recorded. Of earlier allocations, only blocks of known size count (${Format.bytes(device.start_bytes)}); the rest is not included.`);
    if (device.unknown_free_count > 0) notes.push(`${Format.count(device.unknown_free_count)} frees (${Format.bytes(device.unknown_free_bytes)}) were of blocks allocated before the window.`);
    if (device.growth.unknown_because) notes.push(`Whether it grows from step to step is not known: ${device.growth.unknown_because}.`);
    if (device.repeated_free_count > 0) notes.push(`${Format.count(device.repeated_free_count)} frees were of addresses that were freed already: double frees, or allocations that were lost.`);
    return notes.map((note) => el("p", { class: "note" }, note));
  }

  function deviceMemory(device, marks) {
    const view = new MemoryChart.View(device, marks);
    const element = el("div", {}, memoryFacts(device), memoryNotes(device), view.element,
      el("div", { class: "columns" },
        sharesTable("At the peak, by category", "categories", device.by_category, device.peak_unknown_bytes),
        sharesTable("At the peak, by lifetime", "lifetimes", device.by_lifetime, 0),
        sharesTable("At the peak, by operator", "operators", device.by_op, device.peak_older_bytes),
        sharesTable("At the peak, by module", "modules", device.by_module, 0)),
      blockTable(device), growthTable(device));
    return { element, view };
  }

  function blockTable(device) {
    const rows = rowsOf(device.peak_blocks);
    if (rows.length === 0) return null;
    return titled("The largest blocks at the peak", tableOf({
      name: "blocks at the peak", rows: rows.map((row) => ({ ...row, name: row.op || "(no range)" })), sort: "bytes",
      columns: [NAME, { key: "bytes", label: "Bytes", kind: "bytes", bar: true }, { key: "category", label: "Category", kind: "text" },
        { key: "module", label: "Module", kind: "text" }, { key: "step", label: "Step", kind: "count" },
        { key: "allocated_ns", label: "Allocated at", kind: "ns" }, { key: "freed_ns", label: "Freed at", kind: "ns" }],
    }).element);
  }

  function growthTable(device) {
    const rows = rowsOf(device.growth.suspects);
    if (!device.growth.known || rows.length === 0) return null;
    return titled("Kept beyond the step that allocated it", tableOf({
      name: "kept blocks", rows, sort: "bytes",
      columns: [NAME, { key: "bytes", label: "Bytes", kind: "bytes", bar: true }, { key: "blocks", label: "Blocks", kind: "count" }],
    }).element);
  }

  function outOfMemory(data) {
    if (data.out_of_memory.length === 0) return null;
    const line = (failure) => `${Format.bytes(failure.bytes)} on ${failure.device} at ${Format.ns(failure.time_ns)}` +
      (failure.step >= 0 ? `, step ${failure.step}` : "") + (failure.op ? `, in ${failure.op}` : "") +
      (failure.allocated_bytes >= 0 ? `: ${Format.bytes(failure.allocated_bytes)} were allocated` : "") +
      (failure.reserved_bytes >= 0 ? `, ${Format.bytes(failure.reserved_bytes)} reserved` : "");
    return el("div", { class: "alert" }, el("strong", {}, `${Format.count(data.out_of_memory_count)} allocations failed`),
      el("ul", {}, data.out_of_memory.map((failure) => el("li", {}, line(failure)))));
  }

  function memory(data) {
    const node = el("div");
    const section = { views: {}, tables: {} };
    const show = (index) => {
      const shown = section.views[index] || (section.views[index] = deviceMemory(data.memory[index], data.step_marks));
      fill(node, shown.element);
      Charts.defaults();
      shown.view.live.draw();
      section.view = shown.view;
    };
    const preferred = Math.max(0, data.memory.findIndex((device) => device.device.startsWith("cuda:")));
    const left = data.memory_device_count - data.memory.length;
    section.content = [outOfMemory(data),
      data.memory.length > 1 ? el("div", { class: "toolbar" },
        select("Device", data.memory.map((device, i) => ({ value: String(i), label: device.device })), String(preferred),
          (value) => show(Number(value))),
        left > 0 ? el("span", { class: "muted" }, `${left} more devices, which held less, are left out`) : null) : null,
      node];
    section.draw = () => show(preferred);
    return section;
  }

  return { time, ops, modules, kernels, copies, waits, collectives, compile, memory };
})();
