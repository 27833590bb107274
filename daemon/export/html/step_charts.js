// Charts over steps: what each step's time went into, and why the device did nothing in it.
"use strict";

const StepCharts = (() => {
  // What makes up a step, from the bottom of a bar.
  const PARTS = [
    { key: "compute_ns", label: "Compute", colour: "compute" },
    { key: "exposed_communication_ns", label: "Exposed communication", colour: "communication" },
    { key: "exposed_copy_ns", label: "Exposed copies", colour: "copies" },
    { key: "host_wait_ns", label: "Idle: waiting for the host", colour: "host-wait" },
    { key: "kernel_wait_ns", label: "Idle: between kernels", colour: "kernel-wait" },
    { key: "other_ns", label: "Idle: other", colour: "other-idle" },
  ];
  const IDLE_PARTS = PARTS.slice(3).map((part) => ({ ...part, label: Format.words(part.label.slice(6)) }));
  const HOST_PART = [{ key: "duration_ns", label: "Step time", colour: "compute" }];

  const nameOf = (bar) => (bar.first === bar.last ? `${bar.first}` : `${bar.first}–${bar.last}`);

  function median(values) {
    const sorted = [...values].sort((a, b) => a - b);
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }

  // Above median + 5 x median absolute deviation and 1.25 x the median, as `profctl steps`
  // has it; null: too few to tell.
  function outlierLimit(bars) {
    if (bars.length < 5) return null;
    const durations = bars.map((bar) => bar.duration_ns);
    const middle = median(durations);
    const deviation = median(durations.map((duration) => Math.abs(duration - middle)));
    return Math.max(middle + 5 * deviation, 1.25 * middle);
  }

  // How each bar's parts are shown: as times, or as shares of the step.
  function dataOf(part, bars, shares, one) {
    return bars.map((bar) =>
      shares ? (bar.duration_ns > 0 ? (100 * bar[part.key]) / bar.duration_ns : 0) : bar[part.key] / one);
  }

  function tooltip(bars, parts) {
    return {
      filter: (item) => item.raw !== 0,
      callbacks: {
        title: ([item]) => (item ? `Step ${nameOf(bars[item.dataIndex])}` : ""),
        label: (item) => {
          const bar = bars[item.dataIndex];
          const ns = bar[parts[item.datasetIndex].key];
          return ` ${item.dataset.label}: ${Format.ns(ns)} (${Format.share(ns, bar.duration_ns)})`;
        },
        footer: ([item]) => {
          if (!item) return "";
          const bar = bars[item.dataIndex];
          const mean = bar.first === bar.last ? "Step time" : `Mean step time, longest step ${bar.longest} with ${Format.ns(bar.longest_ns)}`;
          return `${mean}: ${Format.ns(bar.duration_ns)}`;
        },
      },
    };
  }

  // Those of `parts` that any bar has; all, if none has any.
  function present(parts, bars) {
    const found = parts.filter((part) => bars.some((bar) => bar[part.key] !== 0));
    return found.length > 0 ? found : parts;
  }

  // A stacked bar for each of `bars`. `state`: {shares, chosen}. `onChoose(index)`.
  function chart({ label, bars, parts: allParts, state, onChoose, line }) {
    const parts = present(allParts, bars);
    const ofHost = allParts === HOST_PART;
    return new Charts.LiveChart(label, "step-chart", () => {
      const shares = state.shares;
      const most = Math.max(1, ...bars.map((bar) => parts.reduce((sum, part) => sum + bar[part.key], 0)));
      const [unit, one] = Format.timeUnit(most);
      const limit = ofHost ? outlierLimit(bars) : null;
      const colours = (part) => limit === null ? Charts.colour(part.colour)
        : bars.map((bar) => Charts.colour(bar.duration_ns > limit ? "host-wait" : part.colour));
      const plugins = [Charts.chosenBar(() => state.chosen)];
      const marked = line && !shares && bars.length > 1;
      if (marked) {
        const middle = median(bars.map((bar) => bar.duration_ns));
        plugins.push(Charts.levelLine(middle / one, `median ${Format.ns(middle)}`));
      }
      return {
        type: "bar",
        data: {
          labels: bars.map(nameOf),
          datasets: parts.map((part) => ({
            label: part.label,
            data: dataOf(part, bars, shares, one),
            backgroundColor: colours(part),
            stack: "step",
            barPercentage: bars.length > 80 ? 1 : 0.82,
            categoryPercentage: bars.length > 80 ? 1 : 0.9,
            maxBarThickness: 72,
          })),
        },
        options: {
          layout: { padding: { right: marked ? Charts.LABEL_ROOM : 0 } },
          interaction: { mode: "index", intersect: false },
          onClick: (event, items, owner) => {
            const hit = owner.getElementsAtEventForMode(event, "index", { intersect: false }, true);
            if (hit.length > 0) onChoose(hit[0].index);
          },
          scales: {
            x: { stacked: true, grid: { display: false }, title: { display: true, text: "Step" },
              ticks: { maxRotation: 0, autoSkipPadding: 12 } },
            y: { stacked: true, beginAtZero: true, max: shares ? 100 : undefined,
              title: { display: true, text: shares ? "Share of the step, %" : `Time, ${unit}` } },
          },
          plugins: { legend: { display: !ofHost }, tooltip: tooltip(bars, parts) },
        },
        plugins,
      };
    });
  }

  return { PARTS, IDLE_PARTS, HOST_PART, chart, nameOf, median };
})();
