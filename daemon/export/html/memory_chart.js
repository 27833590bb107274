// Memory over time: categories stacked, what the allocator had reserved as a line, steps marked.
// Dragging zooms into a time; the y axis follows what is in sight.
"use strict";

const MemoryChart = (() => {
  const LAYERS = {
    before_window: ["Before the window", "layer-older"],
    parameter: ["Parameters", "layer-parameter"],
    buffer: ["Buffers", "layer-buffer"],
    optimizer_state: ["Optimizer state", "layer-optimizer"],
    gradient: ["Gradients", "layer-gradient"],
    input: ["Inputs", "layer-input"],
    activation: ["Activations", "layer-activation"],
    temporary: ["Temporaries", "layer-temporary"],
    unknown: ["Unknown", "layer-unknown"],
  };
  const labelOf = (layer) => (LAYERS[layer] || [Format.words(layer)])[0];
  const colourOf = (layer) => Charts.colour((LAYERS[layer] || ["", "layer-unknown"])[1]);

  const points = (times, values) => times.map((x, i) => ({ x, y: values[i] }));
  const known = (value) => (value < 0 ? null : value);

  function stackedLayer(device, layer) {
    return {
      label: labelOf(layer),
      data: points(device.samples.time_ns, device.layers[layer]),
      borderColor: colourOf(layer),
      backgroundColor: colourOf(layer),
      borderWidth: 0,
      fill: "stack",
      stack: "layers",
    };
  }

  function reservedLine(device) {
    return {
      label: "Reserved by the allocator",
      data: points(device.samples.time_ns, device.samples.reserved_bytes.map(known)),
      borderColor: Charts.colour("ink"),
      backgroundColor: Charts.colour("ink"),
      borderWidth: 1.5,
      borderDash: [6, 4],
      fill: false,
      stack: "reserved",
    };
  }

  function datasets(device) {
    const layers = Object.keys(device.layers).map((layer) => stackedLayer(device, layer));
    return device.samples.reserved_bytes ? [...layers, reservedLine(device)] : layers;
  }

  // Ticks at whole KiB, MiB, GiB, where the library would have them at powers of ten.
  function byteTicks(scale) {
    const MOST_TICKS = 8;
    const [, one] = Format.byteUnit(Math.max(Math.abs(scale.min), Math.abs(scale.max)));
    const steps = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((step) => step * one);
    const step = steps.find((size) => (scale.max - scale.min) / size <= MOST_TICKS) || scale.max - scale.min;
    if (!(step > 0)) return;
    scale.ticks = [];
    for (let i = Math.ceil(scale.min / step); i * step <= scale.max; ++i) scale.ticks.push({ value: i * step });
  }

  function axes(view, end) {
    const [unit, one] = Format.timeUnit(Math.max(1, view.max ?? end));
    return {
      x: {
        type: "linear", min: view.min ?? 0, max: view.max ?? end,
        title: { display: true, text: `Time since the window began, ${unit}` },
        ticks: { maxRotation: 0, callback: (value) => Format.short(value / one) },
        grid: { display: false },
      },
      y: { stacked: true, beginAtZero: true, grace: "4%", afterBuildTicks: byteTicks, ticks: { callback: (value) => Format.bytes(value) } },
    };
  }

  // The last level holds to the end.
  function extendTo(end, device) {
    for (const column of [...Object.values(device.samples), ...Object.values(device.layers)]) {
      column.push(column === device.samples.time_ns ? end : column[column.length - 1]);
    }
  }

  class View {
    constructor(device, marks) {
      this.device = device;
      const times = device.samples.time_ns;
      const lastMark = marks.length > 0 ? marks[marks.length - 1][2] : 0;
      this.end = Math.max(1, times[times.length - 1] || 0, lastMark);
      if (times.length > 0 && times[times.length - 1] < this.end) extendTo(this.end, device);
      this.view = { min: null, max: null };
      this.reset = Dom.el("button", { type: "button", onclick: () => this.zoom(null, null) }, "Whole window");
      this.range = Dom.el("span", { class: "muted", role: "status" });
      this.live = new Charts.LiveChart(`Memory of ${device.device} over time by category`, "memory-chart",
        () => this.configuration(marks));
      this.live.canvas.addEventListener("dblclick", () => this.zoom(null, null));
      this.element = Dom.el("div", {}, this.controls(), this.live.element);
      this.tell();
    }

    controls() {
      const button = (label, title, scale, shift) =>
        Dom.el("button", { type: "button", title, "aria-label": title, onclick: () => this.move(scale, shift) }, label);
      return Dom.el("div", { class: "toolbar" },
        Dom.el("span", { class: "choice" },
          button("+", "Zoom in", 0.5, 0), button("−", "Zoom out", 2, 0),
          button("◀", "Earlier", 1, -0.5), button("▶", "Later", 1, 0.5), this.reset),
        this.range);
    }

    move(scale, shift) {
      const min = this.view.min ?? 0, max = this.view.max ?? this.end;
      const width = Math.min(this.end, (max - min) * scale);
      const middle = (min + max) / 2 + (max - min) * shift;
      const begin = Math.min(Math.max(0, middle - width / 2), this.end - width);
      this.zoom(begin, begin + width);
    }

    // ns; null: the whole window.
    zoom(min, max) {
      const whole = min === null || (min <= 0 && max >= this.end);
      if (!whole && max - min < 10) return;
      this.view = whole ? { min: null, max: null } : { min, max };
      this.live.chart.options.scales = axes(this.view, this.end);
      this.live.chart.update();
      this.tell();
    }

    tell() {
      const { min, max } = this.view;
      this.reset.disabled = min === null;
      this.range.textContent = min === null ? "Drag over the chart to zoom in."
        : `${Format.ns(min)} to ${Format.ns(max)}, ${Format.ns(max - min)} of ${Format.ns(this.end)}`;
    }

    configuration(marks) {
      return {
        type: "line",
        data: { datasets: datasets(this.device) },
        options: {
          parsing: false,
          normalized: true,
          interaction: { mode: "index", intersect: false },
          // Levels hold until the next event.
          elements: { line: { stepped: "before" }, point: { radius: 0, hoverRadius: 0, hitRadius: 0 } },
          scales: axes(this.view, this.end),
          plugins: {
            tooltip: {
              filter: (item) => item.raw.y !== 0 && item.raw.y !== null,
              callbacks: {
                title: ([item]) => (item ? Format.ns(item.raw.x) : ""),
                label: (item) => ` ${item.dataset.label}: ${Format.bytes(item.raw.y)}`,
                footer: ([item]) =>
                  item ? `Allocated: ${Format.bytes(this.device.samples.allocated_bytes[item.dataIndex])}` : "",
              },
            },
          },
        },
        plugins: [Charts.stepMarks(marks), Charts.dragZoom((min, max) => this.zoom(min, max))],
      };
    }
  }

  return { View, labelOf };
})();
